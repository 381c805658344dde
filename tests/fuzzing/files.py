"""Targets of files: whatever is in one, the next start has a log, or refuses with an error that names the file."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from broker.config.broker_config import ConfigurationError
from broker.config.sources import load
from controller.quorum.metadata_batches import MetadataLogError
from protocol.errors import KafkaError
from storage.checkpoint_file import CorruptCheckpointError
from storage.files import read_file, write_file_atomically
from storage.folders.log_checkpoints import CheckpointError
from storage.folders.log_dirs import LogDirError
from storage.folders.meta_properties import MetaPropertiesError
from storage.producers import snapshot_files as producer_snapshot
from storage.producers.snapshot_files import CorruptSnapshotError
from storage.state import manifest
from storage.state.manifest import SnapshotError
from tests.doubles.files import MemoryFileSystem
from tests.fuzzing.target import Target
from tests.unit.controller.quorum.support import FOLDER, Process, config_record, made_root
from tests.unit.storage.support import Rig, append, batch, contents

LOG = "/data/t-0"
NAME = "00000000000000000000"
INDEXES = (".index", ".timeindex", ".txnindex")
REFUSED = (KafkaError, LogDirError, CheckpointError, CorruptCheckpointError, MetaPropertiesError)


@cache
def stopped_log(clean: bool) -> MemoryFileSystem:
    """A log of a few batches, after a clean stop or after the death of the process."""
    rig = Rig(made_root(MemoryFileSystem()))
    log = rig.log()
    append(log, batch(b"a", b"b"))
    append(log, batch(b"c", producer_id=7, sequence=0))
    if clean:
        rig.manager.close()
    else:
        rig.workers.drop_all()
        rig.manager.release()
    return rig.files


def start_with(path: str, data: bytes, *, clean: bool) -> object:
    """Open the log when one of its files, or of its folder's, has these bytes; and read it."""
    fs = stopped_log(clean).copy()
    write_file_atomically(fs, path, data)
    log = Rig(fs).manager.get("t", 0)
    if log is None:  # it is offline, and waits for an operator with all that it has
        assert read_file(fs, path) == data
        return None
    found = contents(log)
    if path.endswith(INDEXES):
        assert found == written()
    return found


@cache
def written() -> list[bytes]:
    """The log's batches, which no index may hide."""
    return contents(Rig(stopped_log(True).copy()).log())


@cache
def stopped_quorum() -> MemoryFileSystem:
    """A metadata log with a snapshot."""
    fs = made_root(MemoryFileSystem())
    process = Process(fs)

    async def live() -> None:
        log = process.log
        await log.lead()
        await log.durable(log.append(map(config_record, range(3))))
        await log.write_snapshot(log.durable_end, log.epoch, 0, list(map(config_record, range(3))))
        await log.close()

    process.run(live())
    process.end()
    return fs


def start_quorum_with(ending: str, data: bytes) -> object:
    fs = stopped_quorum().copy()
    path = quorum_file(fs, ending)
    write_file_atomically(fs, path, data)
    process = Process(fs)
    try:
        return list(process.log.batches())
    finally:
        process.end()


def quorum_file(fs: MemoryFileSystem, ending: str) -> str:
    return f"{FOLDER}/{next(name for name in sorted(fs.listdir(FOLDER)) if name.endswith(ending))}"


def of_log(name: str, path: str, *, clean: bool = True) -> Target:
    return Target(
        name,
        lambda data: start_with(path, data, clean=clean),
        REFUSED,
        lambda: [read_file(stopped_log(clean), path)] if stopped_log(clean).exists(path) else [b""],
    )


def of_quorum(name: str, ending: str) -> Target:
    return Target(
        name,
        lambda data: start_quorum_with(ending, data),
        (MetadataLogError, *REFUSED),
        lambda: [read_file(stopped_quorum(), quorum_file(stopped_quorum(), ending))],
    )


def manifest_of(data: bytes) -> object:
    fs = made_root(MemoryFileSystem())
    write_file_atomically(fs, "/data/manifest.json", data)
    return manifest.read(fs, "/data")


def configuration(data: bytes) -> object:
    return load([("server.properties", data.decode("iso-8859-1"))])


def properties() -> Iterable[bytes]:
    return [
        b"listeners=PLAINTEXT://127.0.0.1:9092\nlog.dirs=/a,/b\nlog.retention.ms=-1\n",
        b"process.roles=broker\ncontroller.quorum.voters=1@a:9093\nssl.keystore.type=PEM\n",
        b'sasl.enabled.mechanisms=PLAIN\nlistener.name.a.plain.sasl.jaas.config=x required user_a="b";\n',
    ]


FILES = (
    of_log("segment_after_a_stop", f"{LOG}/{NAME}.log"),
    of_log("segment_after_a_crash", f"{LOG}/{NAME}.log", clean=False),
    of_log("offset_index", f"{LOG}/{NAME}.index"),
    of_log("time_index", f"{LOG}/{NAME}.timeindex"),
    of_log("transaction_index", f"{LOG}/{NAME}.txnindex"),
    of_log("leader_epochs", f"{LOG}/leader-epoch-checkpoint"),
    of_log("partition_metadata", f"{LOG}/partition.metadata"),
    of_log("producer_snapshot_file", f"{LOG}/{3:020}.snapshot"),
    of_log("recovery_point_checkpoint", "/data/recovery-point-offset-checkpoint"),
    of_log("log_start_checkpoint", "/data/log-start-offset-checkpoint"),
    of_log("meta_properties", "/data/meta.properties"),
    of_quorum("metadata_log", ".log"),
    of_quorum("metadata_snapshot", ".checkpoint"),
    Target(
        "producer_snapshot", producer_snapshot.decode, (CorruptSnapshotError,), lambda: [producer_snapshot.encode([])]
    ),
    Target("state_manifest", manifest_of, (SnapshotError,), lambda: [b"{}"]),
    Target("configuration", configuration, (ConfigurationError,), properties),
)
