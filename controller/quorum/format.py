"""Formatting the folders of a node, as `kafka-storage format` does (Kafka's `Formatter`).

A folder is formatted once its `meta.properties` is there, which is written last. The folder for the metadata log also
gets the bootstrap snapshot: the records to begin the log with, and, for a dynamic quorum, its voters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from controller.quorum import snapshots
from controller.quorum.snapshots import BOOTSTRAP
from controller.quorum.survey import FOLDER_NAME
from metadata.settings import KRAFT_VERSION, METADATA_VERSION
from protocol import uuids
from protocol.metadata.brokers import (
    KRaftVersionFeature,
    KRaftVersionRecord,
    VoterDescription,
    VoterEndpoint,
    VotersRecord,
)
from protocol.metadata.topics import FeatureLevelRecord
from storage.files import FileSystem
from storage.folders import meta_properties
from storage.folders.meta_properties import MetaProperties, MetaPropertiesError


class FormatError(Exception):
    """The folders cannot be formatted; the message says why."""


@dataclass(frozen=True, slots=True)
class Formatting:
    """The folders to format, and how.

    Attributes:
        metadata_folder: the one of `folders` that has the metadata log; None for a node without a controller.
        records: to begin the log with (`bootstrap_records`).
        voter: where the node is reached as the only voter of a dynamic quorum; None for a static quorum.
        ignore_formatted: leave folders alone that are formatted already, which is an error otherwise.
    """

    cluster_id: str
    node_id: int
    folders: Sequence[str]
    metadata_folder: str | None
    records: Sequence[Any]
    voter: VoterEndpoint | None = None
    ignore_formatted: bool = False


def bootstrap_records(levels: Mapping[str, int], others: Iterable[Any] = ()) -> tuple[Any, ...]:
    """Records of the levels, `metadata.version` first, without those of level 0; then the others."""
    names = sorted(
        name for name, level in levels.items() if level > 0 and name not in (METADATA_VERSION, KRAFT_VERSION)
    )
    features = [FeatureLevelRecord(name=name, feature_level=levels[name]) for name in (METADATA_VERSION, *names)]
    return (*features, *others)


def format_folders(fs: FileSystem, now_ms: Callable[[], int], random: Random, wanted: Formatting) -> list[str]:
    """Format the folders that are not, and return them. Blocking; raises FormatError, MetaPropertiesError, OSError."""
    found = {folder: _properties(fs, folder) for folder in wanted.folders}
    for folder, properties in found.items():
        if properties is not None:
            _check_owner(folder, properties, wanted)
    formatted = [folder for folder, properties in found.items() if properties is not None]
    if formatted and not wanted.ignore_formatted:
        raise FormatError(
            f"Log directory {formatted[0]} is already formatted. Use --ignore-formatted to ignore this directory and "
            "format the others."
        )
    new = [folder for folder in wanted.folders if folder not in formatted]
    for folder in new:
        directory_id = uuids.random_uuid(random)
        fs.mkdir(folder)
        fs.fsync_dir(folder.rstrip("/").rpartition("/")[0] or "/")
        if folder == wanted.metadata_folder:
            voters = None if wanted.voter is None else voters_record(wanted.node_id, directory_id, wanted.voter)
            write_bootstrap(fs, now_ms, folder, wanted.records, voters)
        properties = MetaProperties(wanted.cluster_id, wanted.node_id, uuids.to_text(directory_id))
        meta_properties.write(fs, folder, properties, now_ms())
    return new


def _properties(fs: FileSystem, folder: str) -> MetaProperties | None:
    if not fs.exists(folder):
        return None
    if not fs.is_dir(folder):
        raise FormatError(f"{folder} is a file, and log.dirs names folders.")
    return meta_properties.read(fs, folder)


def _check_owner(folder: str, properties: MetaProperties, wanted: Formatting) -> None:
    for name, expected, actual in (
        ("cluster.id", wanted.cluster_id, properties.cluster_id),
        ("node.id", wanted.node_id, properties.node_id),
    ):
        if actual != expected:
            path = f"{folder}/{meta_properties.FILE_NAME}"
            raise MetaPropertiesError(f"Invalid {name} in: {path}. Expected {expected}, but read {actual}")


def voters_record(node_id: int, directory_id: UUID, endpoint: VoterEndpoint) -> Any:
    """The record that makes this node, with this folder, the only voter of a dynamic quorum."""
    levels = KRaftVersionFeature(min_supported_version=0, max_supported_version=1)
    voter = VoterDescription(
        voter_id=node_id, voter_directory_id=directory_id, endpoints=(endpoint,), k_raft_version_feature=levels
    )
    return VotersRecord(version=0, voters=(voter,))


def write_bootstrap(
    fs: FileSystem, now_ms: Callable[[], int], root: str, records: Iterable[Any], voters: Any = None
) -> None:
    """Write the bootstrap snapshot of a new metadata log in `root`, a folder of `log.dirs`. Blocking; raises OSError.

    With a VotersRecord the quorum is dynamic: `kraft.version` is 1.
    """
    folder = f"{root}/{FOLDER_NAME}"
    fs.mkdir(folder)
    fs.fsync_dir(root)
    quorum = [] if voters is None else [KRaftVersionRecord(version=0, k_raft_version=1), voters]
    snapshots.write(fs, folder, BOOTSTRAP, records, timestamp=now_ms(), quorum=quorum, now_ms=now_ms)
