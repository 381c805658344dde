"""From the configuration of a node to the settings of its tiered storage, and to its store.

Settings of the store and of the metadata topic have the prefixes that Kafka's have, `rsm.config.` and `rlmm.config.`.
Those of S3 are named as in Aiven's plugin, so that its configuration can be kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.config.tier_checks import BUCKET_KEY, FOLDER, FOLDER_KEY, STORE, STORES, broken_rules_of_store, under_prefix
from storage.folders.log_dirs import LogDirError
from storage.tier.remote_reader import ReaderSettings
from timing.rate import Windows

if TYPE_CHECKING:
    from broker.config.broker_config import BrokerConfig, CurrentConfig
    from protocol.remote_storage.store import RemoteStore
    from storage.files import FileSystem

MOST_INDEX_BYTES = 64 << 20
"""Kafka keeps indexes on disk, a gigabyte of them; here they are in memory."""

_OF_TOPIC = "remote.log.metadata.topic."


class TierSettingsError(LogDirError):
    """A setting of tiered storage is missing or wrong; the text is for people."""


@dataclass(frozen=True, slots=True)
class MetadataSettings:
    """How `__remote_log_metadata` is made."""

    partitions: int
    replication_factor: int
    min_isr: int
    retention_ms: int


def metadata_settings(config: BrokerConfig) -> MetadataSettings:
    """Raises TierSettingsError. Kafka's replication factor is 3, which one node cannot hold."""
    replicas, in_sync = (3, 2) if config.is_in_cluster else (1, 1)
    given = under_prefix(config, "remote.log.metadata.manager.impl.prefix")
    return MetadataSettings(
        _number(given, f"{_OF_TOPIC}num.partitions", 50, least=1),
        _number(given, f"{_OF_TOPIC}replication.factor", replicas, least=1),
        _number(given, f"{_OF_TOPIC}min.isr", in_sync, least=1),
        _number(given, f"{_OF_TOPIC}retention.ms", -1, least=-1),
    )


def _number(given: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    try:
        number = int(given.get(name, default))
    except ValueError:
        number = least - 1
    if number < least:
        raise TierSettingsError(f"{name} = {given[name]!r}: expected a whole number from {least} on")
    return number


def reader_settings(current: CurrentConfig) -> ReaderSettings:
    """Raises TierSettingsError."""
    config = current.config
    given = under_prefix(config, "remote.log.storage.manager.impl.prefix")
    windows = Windows(
        config.integer("remote.log.manager.fetch.quota.window.num"),
        config.integer("remote.log.manager.fetch.quota.window.size.seconds") * 1000,
    )
    return ReaderSettings(
        chunk_bytes=_number(given, "chunk.size", 4 << 20, least=1),
        cache_bytes=_number(given, "fetch.chunk.cache.size", 64 << 20, least=0),
        index_cache_bytes=min(config.integer("remote.log.index.file.cache.total.size.bytes"), MOST_INDEX_BYTES),
        max_wait_ms=lambda: current.config.integer("remote.fetch.max.wait.ms"),
        threads=lambda: current.config.integer("remote.log.reader.threads"),
        max_pending=config.integer("remote.log.reader.max.pending.tasks"),
        max_bytes_per_second=lambda: current.config.integer("remote.log.manager.fetch.max.bytes.per.second"),
        quota_windows=windows,
    )


def make_store(config: BrokerConfig, fs: FileSystem) -> RemoteStore:
    """The store that the configuration names; nothing is asked of it yet. Raises TierSettingsError."""
    wrong = next(broken_rules_of_store(config), None)
    if wrong is not None:
        raise TierSettingsError(wrong)
    given = under_prefix(config, "remote.log.storage.manager.impl.prefix")
    if STORES[config.string(STORE)] == FOLDER:
        from storage.tier.folder import FolderStore

        return FolderStore(fs, given[FOLDER_KEY])
    return _s3(given)


def _s3(given: Mapping[str, str]) -> RemoteStore:
    from protocol.remote_storage.s3 import S3Settings, open_s3

    settings = S3Settings(
        bucket=given[BUCKET_KEY],
        prefix=given.get("key.prefix", ""),
        endpoint=given.get("storage.s3.endpoint.url"),
        region=given.get("storage.s3.region"),
        path_style=given.get("storage.s3.path.style.access.enabled", "false").lower() == "true",
        access_key=given.get("storage.aws.access.key.id"),
        secret_key=given.get("storage.aws.secret.access.key"),
        chunk_bytes=_number(given, "chunk.size", 4 << 20, least=1),
    )
    try:
        return open_s3(settings)
    except ModuleNotFoundError as error:
        raise TierSettingsError(
            f"remote storage on S3 needs {error.name}, which is not installed: pip install 'odradek[s3]'"
        ) from error
