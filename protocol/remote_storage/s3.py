"""Remote storage in a bucket of S3, or of what speaks its protocol, in Aiven's layout; through `obstore`.

The manifest is written last, so a segment without one is not there. obstore retries by itself what may work at the
second attempt, within half a minute.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from .aiven_layout import (
    INDEXES,
    LOG,
    MANIFEST,
    Manifest,
    bare_segment,
    joined_indexes,
    key_of,
    parse_topic,
    read_manifest,
    read_segment,
    stored_object,
    write_manifest,
)
from .segment import RemoteSegment
from .store import (
    IndexKind,
    RemoteChunkDamagedError,
    RemoteObjectDamagedError,
    RemoteObjectMissingError,
    RemoteStoreError,
    SegmentData,
    StoredObject,
)

if TYPE_CHECKING:
    from obstore.store import S3Store as Bucket

T = TypeVar("T")

MOST_MANIFESTS = 1000
LISTED_AT_ONCE = 1000
CONNECT_TIMEOUT, TIMEOUT, RETRY_TIMEOUT = timedelta(seconds=5), timedelta(seconds=30), timedelta(seconds=30)
RETRIES = 5


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Which bucket, and how it is reached. Without keys those of the environment are used, or of the machine's role."""

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None
    path_style: bool = False
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    chunk_bytes: int = 4 << 20


def open_s3(settings: S3Settings) -> S3Store:
    """The store; nothing is asked of it yet. Raises ModuleNotFoundError without obstore."""
    from obstore.store import S3Store as Bucket

    options: dict[str, Any] = {
        "endpoint": settings.endpoint,
        "region": settings.region,
        "access_key_id": settings.access_key,
        "secret_access_key": settings.secret_key,
    }
    bucket = Bucket(
        settings.bucket,
        virtual_hosted_style_request=not settings.path_style and settings.endpoint is None,
        client_options={
            "connect_timeout": CONNECT_TIMEOUT,
            "timeout": TIMEOUT,
            "allow_http": (settings.endpoint or "").startswith("http://"),
        },
        retry_config={"max_retries": RETRIES, "retry_timeout": RETRY_TIMEOUT},
        **{name: value for name, value in options.items() if value is not None},
    )
    return S3Store(bucket, settings)


class S3Store:
    """`bucket`, under the prefix of the settings. Any thread."""

    def __init__(self, bucket: Bucket, settings: S3Settings) -> None:
        self._bucket = bucket
        self._settings = settings
        self._manifests: OrderedDict[UUID, Manifest] = OrderedDict()

    def check(self) -> None:
        where = f"the bucket {self._settings.bucket}" + (
            f" at {self._settings.endpoint}" if self._settings.endpoint else ""
        )

        def list_some() -> None:
            for _ in self._bucket.list(self._settings.prefix or None, chunk_size=1):
                return

        try:
            _asked(list_some)
        except RemoteStoreError as error:
            raise RemoteStoreError(f"{where} cannot be used: {error}") from error

    def copy(self, segment: RemoteSegment, data: SegmentData) -> bytes | None:
        _asked(lambda: self._bucket.put(self._key(segment, LOG), data.chunks()))
        _asked(lambda: self._bucket.put(self._key(segment, INDEXES), joined_indexes(data)))
        manifest = write_manifest(segment, data, self._settings.chunk_bytes)
        _asked(lambda: self._bucket.put(self._key(segment, MANIFEST), manifest))
        return None

    def read(self, segment: RemoteSegment, position: int, size: int) -> bytes:
        manifest = self._manifest(segment)
        size = min(size, manifest.size - position)
        if size <= 0:
            return b""
        if not manifest.is_compressed:
            return self._range(segment, LOG, position, size)
        first, last = position // manifest.chunk_bytes, (position + size - 1) // manifest.chunk_bytes
        found = b"".join(self._chunk(segment, manifest, number) for number in range(first, last + 1))
        at = position - first * manifest.chunk_bytes
        return found[at : at + size]

    def _chunk(self, segment: RemoteSegment, manifest: Manifest, number: int) -> bytes:
        import zstandard

        start, end = manifest.extent(number)
        packed = self._range(segment, LOG, start, end - start)
        try:
            return zstandard.ZstdDecompressor().decompress(packed, max_output_size=manifest.chunk_bytes)
        except zstandard.ZstdError as error:
            raise RemoteChunkDamagedError(f"chunk {number} of {self._key(segment, LOG)} is damaged: {error}") from error

    def read_plain(self, segment: RemoteSegment, position: int, size: int) -> bytes:
        """As `read`, of a segment without a manifest, whose log is taken for one that is not compressed."""
        return self._range(segment, LOG, position, min(size, segment.size - position))

    def is_cut(self, segment: RemoteSegment, *, plain: bool) -> bool:
        """Whether what is stored of the segment's log is shorter than it was."""
        size = _asked(lambda: self._bucket.head(self._key(segment, LOG))["size"])
        return bool(size < (segment.size if plain else self._manifest(segment).ends[-1]))

    def index(self, segment: RemoteSegment, kind: IndexKind) -> bytes:
        place = self._manifest(segment).indexes.get(kind)
        if place is None:
            raise RemoteObjectMissingError(f"{self._key(segment, INDEXES)} has no {kind.value} index")
        return self._range(segment, INDEXES, *place) if place[1] else b""

    def delete(self, segment: RemoteSegment) -> None:
        self._manifests.pop(segment.id, None)
        names = [self._key(segment, suffix) for suffix in (MANIFEST, INDEXES, LOG)]
        _asked(lambda: self._bucket.delete(names))

    def names(self, segment: RemoteSegment) -> list[str]:
        return [self._key(segment, suffix) for suffix in (LOG, INDEXES, MANIFEST)]

    def objects(self) -> Iterator[StoredObject]:
        prefix = self._settings.prefix
        for page in self._pages(None):
            for one in page:
                if one["path"].startswith(prefix):
                    yield stored_object(prefix, one["path"], one["size"])

    def segments(self, wants: Callable[[str, int], bool], *, salvage: bool = False) -> Iterator[RemoteSegment]:
        """The segments that are stored of the wanted topics and partitions, by their manifests.

        With `salvage` also the logs that have none, or one that cannot be read: the state of these is COPY_STARTED.
        """
        prefix = self._settings.prefix
        folder = prefix.rpartition("/")[0] or None
        for name in self._folders(folder):
            topic = parse_topic(prefix, name)
            if topic is None:
                continue
            for index in self._folders(name):
                number = index.rstrip("/").rpartition("/")[2]
                if number.isdigit() and wants(topic[0], int(number)):
                    yield from self._segments_in(index, salvage)

    def _folders(self, prefix: str | None) -> list[str]:
        return list(_asked(lambda: self._bucket.list_with_delimiter(prefix))["common_prefixes"])

    def _segments_in(self, folder: str, salvage: bool) -> Iterator[RemoteSegment]:
        bare: dict[UUID, RemoteSegment] = {}
        for page in self._pages(folder):
            for one in page:
                if one["path"].endswith(f".{MANIFEST}"):
                    found = self._listed(one["path"], salvage)
                    if found is not None:
                        bare.pop(found.id, None)
                        yield found
                elif (log := bare_segment(self._settings.prefix, one["path"], one["size"])) is not None:
                    bare[log.id] = log
        if salvage:
            yield from bare.values()

    def _listed(self, manifest: str, salvage: bool) -> RemoteSegment | None:
        try:
            return read_segment(self._content(manifest))
        except RemoteObjectDamagedError as error:
            if salvage:
                return None
            raise RemoteObjectDamagedError(f"{manifest}: {error}") from error

    def _pages(self, prefix: str | None) -> Iterator[Any]:
        found: Iterator[Any] = iter(_asked(lambda: self._bucket.list(prefix, chunk_size=LISTED_AT_ONCE)))
        while (page := _asked(lambda: next(found, None))) is not None:
            yield page

    def _manifest(self, segment: RemoteSegment) -> Manifest:
        known = self._manifests.get(segment.id)
        if known is None:
            key = self._key(segment, MANIFEST)
            known = read_manifest(self._content(key))
            self._manifests[segment.id] = known
            if len(self._manifests) > MOST_MANIFESTS:
                self._manifests.popitem(last=False)
        return known

    def _content(self, key: str) -> bytes:
        return _asked(lambda: bytes(self._bucket.get(key).bytes()))

    def _range(self, segment: RemoteSegment, suffix: str, start: int, length: int) -> bytes:
        key = self._key(segment, suffix)
        return _asked(lambda: bytes(self._bucket.get_range(key, start=start, length=length)))

    def _key(self, segment: RemoteSegment, suffix: str) -> str:
        return key_of(self._settings.prefix, segment, suffix)


def _asked(work: Callable[[], T]) -> T:
    """The result of `work`. Raises RemoteStoreError in place of obstore's errors."""
    from obstore.exceptions import BaseError

    try:
        return work()
    except FileNotFoundError as error:
        raise RemoteObjectMissingError(_first_line(error)) from error
    except (BaseError, OSError) as error:
        raise RemoteStoreError(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    """What obstore says, without the debugging output that follows."""
    return (str(error).splitlines() or [type(error).__name__])[0]
