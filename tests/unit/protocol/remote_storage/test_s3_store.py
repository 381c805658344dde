"""Remote storage on S3, through obstore and a server over a socket, in Aiven's layout; with `--torture` on moto's."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
import zstandard

from protocol.remote_storage.s3 import S3Settings, S3Store, open_s3
from protocol.remote_storage.store import RemoteObjectMissingError, RemoteStoreError
from tests.doubles.s3_server import S3Server, s3_server
from tests.ports import free_port
from tests.unit.protocol.remote_storage.stores import LOG, TRANSACTIONS, check_store, data, segment


@pytest.fixture
def served() -> Iterator[tuple[S3Server, str]]:
    with s3_server() as found:
        yield found


def store_at(address: str, bucket: str = "archive") -> S3Store:
    return open_s3(
        S3Settings(
            bucket,
            prefix="tier/",
            endpoint=address,
            region="us-east-1",
            path_style=True,
            access_key="key",
            secret_key="secret",
            chunk_bytes=4096,
        )
    )


def test_a_bucket_of_s3_is_a_store(served: tuple[S3Server, str]) -> None:
    check_store(store_at(served[1]))


def test_a_segment_on_s3_has_the_layout_of_aivens_plugin(served: tuple[S3Server, str]) -> None:
    server, address = served
    store_at(address).copy(segment(1, 42), data(TRANSACTIONS))
    name = "tier/some-topic.a_b-AAAAAAAAAAcAAAAAAAAAAA/3/00000000000000000042-AAAAAAAAAAEAAAAAAAAAAQ"
    assert sorted(server.objects) == [f"{name}.indexes", f"{name}.log", f"{name}.rsm-manifest"]
    assert server.objects[f"{name}.log"] == LOG
    assert server.objects[f"{name}.indexes"] == b"".join(TRANSACTIONS.values())
    assert json.loads(server.objects[f"{name}.rsm-manifest"])["compression"] is False


def test_only_the_range_that_is_read_is_asked_for(served: tuple[S3Server, str]) -> None:
    server, address = served
    store = store_at(address)
    store.copy(segment(1), data())
    server.ranges.clear()
    assert store.read(segment(1), 100, 50) == LOG[100:150]
    assert server.ranges == ["bytes=100-149"]


def test_chunks_that_aivens_plugin_has_compressed_are_read(served: tuple[S3Server, str]) -> None:
    server, address = served
    store = store_at(address)
    store.copy(segment(1), data())
    (log,) = [name for name in server.objects if name.endswith(".log")]
    chunks = [zstandard.compress(LOG[at : at + 4096]) for at in range(0, len(LOG), 4096)]
    size = max(map(len, chunks[:-1]))
    manifest = json.loads(server.objects[log.replace(".log", ".rsm-manifest")])
    assert len({len(chunk) for chunk in chunks[:-1]}) == 1
    manifest["chunkIndex"] |= {"transformedChunkSize": size, "finalTransformedChunkSize": len(chunks[-1])}
    manifest["compression"] = True
    server.objects[log] = b"".join(chunks)
    server.objects[log.replace(".log", ".rsm-manifest")] = json.dumps(manifest).encode()
    assert store_at(address).read(segment(1), 4000, 5000) == LOG[4000:9000]
    server.objects[log] = b"x" * len(server.objects[log])
    with pytest.raises(RemoteStoreError, match="damaged"):
        store_at(address).read(segment(1), 0, 10)


def test_a_bucket_that_is_not_there_is_named(served: tuple[S3Server, str]) -> None:
    with pytest.raises(RemoteStoreError, match=r"the bucket elsewhere at http.* cannot be used"):
        store_at(served[1], "elsewhere").check()


def test_an_object_that_is_lost_is_told_from_a_store_that_fails(served: tuple[S3Server, str]) -> None:
    server, address = served
    store = store_at(address)
    store.copy(segment(1), data())
    server.objects.clear()
    with pytest.raises(RemoteObjectMissingError):
        store.read(segment(1), 0, 10)


@pytest.fixture
def moto_address() -> Iterator[str]:
    if find_spec("moto") is None:
        pytest.skip("needs moto: pip install 'moto[server]'")
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)])
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                with urlopen(Request(f"{address}/archive", method="PUT")):
                    break
            except URLError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


@pytest.mark.torture
def test_a_bucket_of_moto_is_a_store(moto_address: str) -> None:
    check_store(store_at(moto_address))
