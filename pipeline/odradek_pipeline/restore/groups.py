"""Consumer groups moved to a restored topic: their committed offsets, by the map of offsets.

Where a group was is read from `__consumer_offsets` in the source's folders, or asked from a cluster. Where it goes is
written down beside the map before it is committed: if a group's commits are of the same topic in the same cluster, a
repeated restore must not take what it has moved for what is to be moved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from odradek_pipeline.audit.broker_topic import TIMEOUT_S, broker_client
from odradek_pipeline.audit.groups import OFFSETS_TOPIC, commits_in
from odradek_pipeline.audit.log_topic import Hole
from odradek_pipeline.audit.sides import AuditError
from odradek_pipeline.audit.topic_table import OffsetMap
from odradek_pipeline.restore.folders import Folders
from odradek_pipeline.restore.log_writer import write_file

ALL = "all"

Commits = dict[str, dict[int, int]]
"""By group, the committed offset of each partition of the topic."""


def commits_in_folders(folders: Sequence[str], topic: str) -> Commits:
    """What `__consumer_offsets` in the folders has of a topic. Raises AuditError."""
    offsets = Folders(folders, (OFFSETS_TOPIC,)).topic(OFFSETS_TOPIC)
    found: Commits = {}
    for number, extent in offsets.extents().items():
        for one in offsets.batches(number, extent.start, extent.end):
            if isinstance(one, Hole):
                continue
            header, batch, aborted = one
            if aborted or header.is_control:
                continue
            try:
                commits = [commit for commit in commits_in(batch, header) if commit.topic == topic]
            except ValueError as error:
                raise AuditError(f"{OFFSETS_TOPIC}-{number} at offset {header.base_offset}: {error}") from error
            for commit in commits:
                of_group = found.setdefault(commit.group, {})
                of_group.pop(commit.partition, None)
                if commit.offset is not None:
                    of_group[commit.partition] = commit.offset
    return {group: places for group, places in found.items() if places}


def commits_at(bootstrap: str, config: Mapping[str, str], topic: str, names: Sequence[str]) -> Commits:
    """What the groups of a cluster have committed of a topic. Raises AuditError."""
    admin = AdminClient(broker_client(bootstrap, config))
    try:
        if ALL in names:
            listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
            names = [group.group_id for group in listed.valid]
        found: Commits = {}
        for name in names:
            asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)], request_timeout=TIMEOUT_S)
            places = asked[name].result(TIMEOUT_S).topic_partitions or []
            of_topic = {place.partition: place.offset for place in places if place.topic == topic and place.offset >= 0}
            if of_topic:
                found[name] = of_topic
    except KafkaException as error:
        raise AuditError(f"The groups at {bootstrap}: {error}") from error
    return found


class GroupMove:
    """Moves groups to `new_topic` at `bootstrap`. `path` is where it is written down."""

    def __init__(self, bootstrap: str, config: Mapping[str, str], new_topic: str, path: Path) -> None:
        """Raises AuditError for a file that is not ours."""
        self._admin = AdminClient(broker_client(bootstrap, config))
        self._topic = new_topic
        self._path = path
        try:
            self._plan: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        except (OSError, ValueError) as error:
            raise AuditError(f"{path} cannot be read: {error}") from error

    def run(self, commits: Commits, names: Sequence[str], offsets: OffsetMap) -> list[dict[str, Any]]:
        """Move those named, or all; each with what it was and is, and `error` if the group has not taken it."""
        wanted = sorted(commits) if ALL in names else list(names)
        for name in wanted:
            if name not in self._plan and name in commits:
                moves = {
                    str(number): [old, offsets.new(number, old) or 0] for number, old in sorted(commits[name].items())
                }
                self._plan[name] = {"offsets": moves, "moved": False}
        write_file(self._path, json.dumps(self._plan, indent=1) + "\n")
        return [self._moved(name) for name in wanted]

    def _moved(self, name: str) -> dict[str, Any]:
        planned = self._plan.get(name)
        if planned is None:
            return {"group": name, "offsets": {}, "error": "it has no offsets of the topic"}
        done = {"group": name, "offsets": planned["offsets"], "error": None}
        if planned["moved"]:
            return done
        places = [TopicPartition(self._topic, int(number), new) for number, (_, new) in planned["offsets"].items()]
        asked = self._admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name, places)], request_timeout=TIMEOUT_S
        )
        try:
            answer = asked[name].result(TIMEOUT_S)
            wrong = next((place.error for place in answer.topic_partitions or [] if place.error), None)
        except KafkaException as error:
            wrong = error.args[0]
        if wrong is not None:
            return done | {"error": f"{wrong.name()}: {wrong.str()}; end its members, and repeat the restore"}
        planned["moved"] = True
        write_file(self._path, json.dumps(self._plan, indent=1) + "\n")
        return done
