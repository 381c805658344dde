"""Imports the metadata of a folder that a release before 0.2 wrote: its store's keys become records, once."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from broker.cluster.earlier_entries import CorruptMetadataError, decode_entries
from controller.quotas import CLIENT_ID, IP, USER
from controller.scram import ScramMechanism
from metadata.configs import ResourceType
from metadata.settings import METADATA_VERSION
from protocol.metadata.credentials import UserScramCredentialRecord
from protocol.metadata.topics import (
    NO_LEADER,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    TopicRecord,
)
from storage.files import FileSystem, read_file

LOG_NAME = "metadata.log"
SNAPSHOT_NAME = "metadata.snapshot"
ASIDE = ".imported"
"""What is added to the names of the files once they were imported."""

_DEFAULT = "<default>"
_CONFIG_FOLDERS = {
    "brokers": ResourceType.BROKER,
    "client-metrics": ResourceType.CLIENT_METRICS,
    "groups": ResourceType.GROUP,
}
_QUOTA_FOLDERS = {"users": USER, "clients": CLIENT_ID, "ips": IP}


def is_present(fs: FileSystem, folder: str) -> bool:
    """Whether the folder has such files, not imported yet. Blocking; raises OSError."""
    return any(fs.exists(f"{folder}/{name}") for name in (LOG_NAME, SNAPSHOT_NAME))


def read_records(fs: FileSystem, folder: str) -> tuple[list[Any], set[UUID]]:
    """The records that say what the store says, and the ids of deleted topics of which folders may be left.

    Records of features come first. Blocking; raises CorruptMetadataError, OSError.
    """
    state = _load(fs, folder)
    deleted = {UUID(key.removeprefix("/deleted-topics/")) for key in state if key.startswith("/deleted-topics/")}
    records: list[Any] = []
    for key in sorted(state, key=lambda key: (not key.startswith("/features"), key)):
        subject, _, path = key.removeprefix("/").partition("/")
        read = _READ.get(subject)
        if read is not None:
            records += read(path, json.loads(state[key]))
    return records, deleted


def set_aside(fs: FileSystem, folder: str) -> None:
    """Rename the files, once their records are durable. Blocking; raises OSError."""
    for name in (LOG_NAME, SNAPSHOT_NAME):
        if fs.exists(f"{folder}/{name}"):
            fs.rename(f"{folder}/{name}", f"{folder}/{name}{ASIDE}")
    fs.fsync_dir(folder)


def _load(fs: FileSystem, folder: str) -> dict[str, bytes]:
    state: dict[str, bytes] = {}
    revision = 0
    for name in (SNAPSHOT_NAME, LOG_NAME):
        path = f"{folder}/{name}"
        if not fs.exists(path):
            continue
        data = read_file(fs, path)
        entries = list(decode_entries(data, path, covered=revision))
        if name == SNAPSHOT_NAME and (len(entries) != 1 or entries[0][0] != len(data)):
            raise CorruptMetadataError(f"{path} is damaged; restore it from a backup")
        for commit in (commit for _, commits in entries for commit in commits):
            if commit.revision <= revision:  # after a crash between the snapshot and the truncation of the log
                continue
            if name == LOG_NAME and commit.revision != revision + 1:
                raise CorruptMetadataError(
                    f"{path}: commit {commit.revision} follows {revision}; commits between are missing"
                )
            for key in commit.deletes:
                state.pop(key, None)
            state.update(commit.puts)
            revision = commit.revision
    return state


def _topic(name: str, value: Mapping[str, Any]) -> Iterator[Any]:
    topic_id = UUID(value["id"])
    yield TopicRecord(name=name, topic_id=topic_id)
    for key, text in value["configs"].items():
        yield ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=name, name=key, value=text)
    for index, known in enumerate(value["partitions"]):
        replicas = tuple(known["replicas"])
        yield PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=replicas,
            isr=tuple(known["isr"]),
            leader=NO_LEADER,  # as after a stop: the election that follows makes the epoch two higher
            leader_epoch=known["leader_epoch"] + 1,
            partition_epoch=0,
            directories=(UUID(int=1),) * len(replicas),  # unassigned (KIP-858)
        )


def _config(path: str, value: Mapping[str, str]) -> Iterator[Any]:
    folder, _, name = path.partition("/")
    resource_type = _CONFIG_FOLDERS[folder]
    resource_name = "" if resource_type is ResourceType.BROKER and name == _DEFAULT else name
    for key, text in value.items():
        yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=key, value=text)


def _features(_path: str, value: Mapping[str, int]) -> Iterator[Any]:
    for name, level in sorted(value.items(), key=lambda level: level[0] != METADATA_VERSION):
        yield FeatureLevelRecord(name=name, feature_level=level)


def _quota(path: str, value: Mapping[str, Any]) -> Iterator[Any]:
    words = path.split("/")
    entity = tuple(
        QuotaEntity(entity_type=_QUOTA_FOLDERS[folder], entity_name=None if name == _DEFAULT else unquote(name))
        for folder, name in zip(words[::2], words[1::2], strict=True)
    )
    for key, quota in value["quotas"].items():
        yield ClientQuotaRecord(entity=entity, key=key, value=quota)


def _scram(user: str, value: Mapping[str, Any]) -> Iterator[Any]:
    for name, credential in value.items():
        yield UserScramCredentialRecord(
            name=user,
            mechanism=ScramMechanism[name],
            salt=b64decode(credential["salt"]),
            stored_key=b64decode(credential["stored_key"]),
            server_key=b64decode(credential["server_key"]),
            iterations=credential["iterations"],
        )


def _producer_ids(_path: str, value: Mapping[str, int]) -> Iterator[Any]:
    yield ProducerIdsRecord(broker_id=-1, next_producer_id=value["first"])


_READ: Mapping[str, Callable[[str, Any], Iterator[Any]]] = {
    "topics": _topic,
    "configs": _config,
    "features": _features,
    "quotas": _quota,
    "scram": _scram,
    "producer-ids": _producer_ids,
}
