"""The data folder that is restored into: whether it may be, what is done, and the checkpoints.

A restore that was killed goes on: `odradek-restore.json` in the folder says which partitions are whole, and which one
was being written, which is then written again. Brokers do not mind the file.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from odradek_pipeline.audit.sides import AuditError
from odradek_pipeline.datasource.errors import DataSourceError
from odradek_pipeline.datasource.folders import (
    CLEAN_SHUTDOWN,
    CLEANER,
    LOG_START,
    RECOVERY_POINT,
    REPLICATION,
    Home,
    read_checkpoint,
    topic_id,
)
from odradek_pipeline.protocol.topic_partition import TopicPartition
from odradek_pipeline.restore.folders import CLUSTER_METADATA
from odradek_pipeline.restore.log_writer import METADATA, draft_of, write_file, write_offsets

STATE = "odradek-restore.json"
META = "meta.properties"
LOCK = ".lock"
_COPIED = (META, "bootstrap.checkpoint")
_NOTHING = {LOCK, "lost+found", draft_of(Path(STATE)).name}
"""What a folder may have, and still be empty: a restore may have been killed before it wrote down its first state."""


def is_new(root: Path) -> bool:
    """Whether a folder is not there, or empty, or was so when a restore into it began that has not ended."""
    if (root / STATE).exists():
        return bool(json.loads((root / STATE).read_text())["new"])
    return not root.exists() or not {entry.name for entry in root.iterdir()} - _NOTHING


class Target:
    """A data folder. `is_new`: it has nothing of its own, so that a whole broker may be put there."""

    def __init__(self, root: Path, job: Mapping[str, Any]) -> None:
        """`job` says what is restored: a state of another one is refused. Raises AuditError, OSError."""
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self._job = dict(job)
        self._done: list[str] = []
        self._writing: str | None = None
        path = root / STATE
        self.is_new = is_new(root)
        if path.exists():
            self._go_on(json.loads(path.read_text()))

    def _go_on(self, state: Mapping[str, Any]) -> None:
        if state["job"] != self._job:
            raise AuditError(
                f"{self.root / STATE} is of a restore that did not end, from {state['job']['from']}: repeat that one, "
                "or empty the folder."
            )
        if (self.root / CLEAN_SHUTDOWN).exists():
            raise AuditError(
                f"A broker has run on {self.root} since the restore began, which did not end: it may have written "
                "there. Begin again with a folder as it was before."
            )
        self._done, self._writing = state["done"], state["writing"]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep brokers out (Odradek's lock is flock's, Kafka's that of lockf). Raises AuditError."""
        with open(self.root / LOCK, "a", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise AuditError(f"A broker is running on {self.root}: stop it first.") from error
            yield

    def folder(self, partition: TopicPartition) -> Path:
        return self.root / str(partition)

    def begin(self, metadata: Path | None) -> None:
        """Write down what is to be done. A new folder gets the metadata of cluster and node. Raises OSError."""
        if self.is_new and metadata is not None:
            self._save()
            for name in _COPIED:
                if (metadata / name).exists():
                    shutil.copyfile(metadata / name, self.root / name)
            shutil.copytree(metadata / f"{CLUSTER_METADATA}-0", self.root / f"{CLUSTER_METADATA}-0", dirs_exist_ok=True)
        (self.root / CLEAN_SHUTDOWN).unlink(missing_ok=True)  # so that recovery makes indexes and producers' states
        self._save()

    def check(self, partition: TopicPartition) -> None:
        """Raises AuditError unless the partition is there and has nothing, or is one that this restore has written."""
        folder = self.folder(partition)
        if str(partition) in (*self._done, self._writing):
            return
        if self.is_new:
            if folder.exists():
                raise AuditError(f"{folder} is there already.")
            return
        if not (folder / METADATA).exists():
            raise AuditError(
                f"{self.root} has no partition {partition}. Start its broker, create the topic with as many partitions "
                "as it had, stop the broker, and restore then."
            )
        if any(log.stat().st_size for log in folder.glob("*.log")):
            raise AuditError(f"{folder} has records already: nothing was changed. Restore into an empty topic.")

    def is_done(self, partition: TopicPartition) -> bool:
        return str(partition) in self._done

    def topic_id(self, partition: TopicPartition) -> str | None:
        """The id that the folder's topic has; None for a folder that is not there."""
        folder = self.folder(partition)
        return topic_id(Home(partition, str(self.root), str(folder))) if folder.exists() else None

    def clear(self, partition: TopicPartition) -> Path:
        """The partition's folder without any segment, to be written. Raises OSError."""
        self._writing = str(partition)
        self._save()
        folder = self.folder(partition)
        folder.mkdir(exist_ok=True)
        for entry in folder.iterdir():
            if entry.name != METADATA:
                entry.unlink()
        return folder

    def written(self, partition: TopicPartition, offsets: Mapping[str, int]) -> None:
        """The partition is whole; `offsets` are its entries in checkpoints. Raises AuditError, OSError."""
        for name in (LOG_START, REPLICATION, CLEANER, RECOVERY_POINT):
            try:
                known = dict(read_checkpoint(str(self.root), name))
            except DataSourceError as error:
                raise AuditError(str(error)) from error
            if known.get(partition) != offsets.get(name):  # what an emptied topic has left would hide records
                write_offsets(self.root / name, known | {partition: offsets.get(name, 0)})
        self._done.append(str(partition))
        self._writing = None
        self._save()

    def end(self) -> None:
        """All is written and compared. Raises OSError."""
        os.unlink(self.root / STATE)

    def _save(self) -> None:
        state = {"job": self._job, "new": self.is_new, "done": self._done, "writing": self._writing}
        write_file(self.root / STATE, json.dumps(state, indent=1) + "\n")
