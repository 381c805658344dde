"""Data folders: which partitions they hold, and what the checkpoints beside them say.

The names are those of Kafka's LocalLog and LogManager; `-delete`, `-stray` and `-future` folders hold no log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from odradek_pipeline.datasource.errors import CorruptLogError, DataSourceError
from odradek_pipeline.protocol.topic_partition import TopicPartition

LOG_START = "log-start-offset-checkpoint"
REPLICATION = "replication-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"
RECOVERY_POINT = "recovery-point-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

_FOLDER = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)")
_MOVED = re.compile(r"(?P<name>.+)\.[0-9a-f]{32}-moved")
_LISTINGS = 100
_TOPIC_ID = re.compile(r"^topic_id: *(\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of a partition, and the data folder that it lies in."""

    partition: TopicPartition
    root: str
    folder: str


def find_homes(roots: tuple[str, ...], wants: Callable[[TopicPartition], bool]) -> list[Home]:
    """The folders of the wanted partitions, in order of their names.

    A finished copy that does not have the partition's name yet (`-moved`) takes precedence over any other folder. While
    a broker moves a partition between folders, a listing may miss it, so two in a row must be the same.
    Raises DataSourceError for a data folder that cannot be read, and for two folders of one partition.
    """
    before = _names(roots, wants)
    for _ in range(_LISTINGS):
        names = _names(roots, wants)
        if names == before:
            return _homes(names)
        before = names
    raise DataSourceError(f"{', '.join(roots)} change faster than they can be listed.")


def _names(roots: tuple[str, ...], wants: Callable[[TopicPartition], bool]) -> set[tuple[str, str]]:
    """The (data folder, name) of each folder that may be a partition's."""
    found = set()
    for root in roots:
        try:
            names = os.listdir(root)
        except OSError as error:
            raise DataSourceError(f"The data folder {root} cannot be read: {error}") from error
        for name in names:
            partition, _ = _parse(name)
            if partition is not None and wants(partition):
                found.add((root, name))
    return found


def _homes(names: set[tuple[str, str]]) -> list[Home]:
    homes: dict[TopicPartition, Home] = {}
    moved: dict[TopicPartition, Home] = {}
    for root, name in sorted(names):
        partition, is_moved = _parse(name)
        if partition is None:
            continue
        found = moved if is_moved else homes
        if partition in found:
            raise DataSourceError(f"{partition} is in two folders: {found[partition].folder}, {root}/{name}")
        found[partition] = Home(partition, root, f"{root}/{name}")
    return [home for _, home in sorted((homes | moved).items())]


def _parse(name: str) -> tuple[TopicPartition | None, bool]:
    """The partition whose folder has that name, and whether it is a finished copy; (None, _) for any other folder."""
    moved = _MOVED.fullmatch(name)
    match = _FOLDER.fullmatch(moved["name"] if moved else name)
    return (TopicPartition(match["topic"], int(match["partition"])) if match else None), moved is not None


def topic_id(home: Home) -> str | None:
    """The id in a partition's `partition.metadata`; None if there is none. FileNotFoundError if the folder is gone."""
    try:
        with open(f"{home.folder}/partition.metadata", encoding="utf-8") as file:
            found = _TOPIC_ID.search(file.read())
    except FileNotFoundError:
        os.stat(home.folder)
        return None
    return found[1] if found else None


def read_checkpoint(root: str, name: str) -> Mapping[TopicPartition, int]:
    """A checkpoint of a data folder (Kafka's OffsetCheckpointFile); empty if there is none. Raises CorruptLogError."""
    try:
        with open(f"{root}/{name}", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return {}
    if not lines:
        return {}
    try:
        offsets = {}
        for line in lines[2:]:
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        complete = lines[0] == "0" and int(lines[1]) == len(offsets)
    except (ValueError, IndexError) as error:
        raise CorruptLogError(f"{root}/{name} cannot be read: {error}") from error
    if not complete:
        raise CorruptLogError(f"{root}/{name} is of another version than 0, or not whole.")
    return offsets
