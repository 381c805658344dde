"""`odradek-pipeline restore --from-tier`: a topic with tiered storage, out of a folder store and of S3."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")

from confluent_kafka import Consumer, TopicPartition

from odradek import Broker
from tests.pipeline.consumed import consumed
from tests.pipeline.lakes import create_topic, produce
from tests.pipeline.s3_site import S3Site, s3_site
from tests.pipeline.test_datasource_tier import SETTINGS, TIERED, fill
from tests.pipeline.test_restore_topic import JOB, contents
from tests.unit.pipeline.audited import audit
from tests.unit.pipeline.restored import lost, restore

TOPIC = "cold"
GROUP = "readers"
SECONDS = 60
Records = list[tuple[Any, ...]]


@dataclass
class Old:
    """The folder of a broker that was killed, whose tier has all but the newest records, and what consumers saw."""

    folder: Path
    settings: dict[str, str]
    asked: list[str]
    committed: Records
    everything: Records

    @property
    def audited(self) -> list[str]:
        """The topic as an audit reads it."""
        options = ["--tier" if word == "--from-tier" else word for word in self.asked]
        return ["--topic", TOPIC, "--data", str(self.folder), *options]


@pytest.fixture(scope="module")
def site() -> Iterator[S3Site]:
    with s3_site() as found:
        yield found


@pytest.fixture(scope="module", params=["folder", "s3"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def place(kind: str, root: Path, request: pytest.FixtureRequest) -> tuple[dict[str, str], list[str]]:
    """The settings of a broker with a tier of that kind, and the options of `restore` for it."""
    settings = {**SETTINGS, "remote.log.storage.manager.class.name": kind}
    if kind == "folder":
        return {**settings, "rsm.config.dir": str(root / "tier")}, ["--from-tier", str(root / "tier")]
    site = request.getfixturevalue("site")
    prefix = f"{root.name}/"
    store = {
        "rsm.config.storage.s3.bucket.name": site.bucket,
        "rsm.config.key.prefix": prefix,
        "rsm.config.storage.s3.endpoint.url": site.address,
        "rsm.config.storage.s3.region": "us-east-1",
        "rsm.config.storage.aws.access.key.id": "key",
        "rsm.config.storage.aws.secret.access.key": "secret",
    }
    options = {"Endpoint": site.address, "Region": "us-east-1", "AccessKey": "key", "SecretKey": "secret"}
    words = [word for name, value in options.items() for word in ("--tier-config", f"s3{name}={value}")]
    return {**settings, **store}, ["--from-tier", f"s3://{site.bucket}/{prefix}", *words]


def made(kind: str, root: Path, request: pytest.FixtureRequest) -> Old:
    settings, asked = place(kind, root, request)
    with Broker({**settings, "log.dirs": str(root / "old")}, profile="dev") as broker:
        fill(broker, TOPIC)
        reader = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": GROUP})
        places = [TopicPartition(TOPIC, 0, 100), TopicPartition(TOPIC, 1, 200)]
        reader.commit(offsets=places, asynchronous=False)
        reader.close()
        committed = consumed(broker.bootstrap_servers, TOPIC, 2, "read_committed")
        everything = consumed(broker.bootstrap_servers, TOPIC, 2, "read_uncommitted")
        broker.kill()
    return Old(root / "old", settings, asked, committed, everything)


@pytest.fixture(scope="module")
def old(kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Old:
    """To be read alone."""
    return made(kind, tmp_path_factory.mktemp("tiered"), request)


@pytest.fixture
def own(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Old:
    """One whose tier another broker may use."""
    return made(kind, tmp_path, request)


def local_start(folder: Path, partition: int) -> int:
    return min(int(log.name[:20]) for log in (folder / f"{TOPIC}-{partition}").glob("*.log"))


def wait_until_tiered(folder: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while not all(local_start(folder, number) for number in (0, 1)):
        assert time.monotonic() < deadline, "the older segments have not gone to the tier"
        time.sleep(0.1)


def test_the_whole_log_becomes_local_and_is_tiered_again(own: Old, tmp_path: Path) -> None:
    assert all(local_start(own.folder, number) for number in (0, 1))
    new = tmp_path / "new"
    status, result = restore("--from-data", own.folder, *own.asked, "--into-data", new)
    assert (status, lost(result)) == (0, {})
    assert [local_start(new, number) for number in (0, 1)] == [0, 0]
    assert audit(*own.audited, "--against-data", new)[0] == 0
    with Broker({**own.settings, "log.dirs": str(new)}, profile="dev") as broker:
        assert consumed(broker.bootstrap_servers, TOPIC, 2, "read_committed") == own.committed
        assert consumed(broker.bootstrap_servers, TOPIC, 2, "read_uncommitted") == own.everything
        wait_until_tiered(new)
        assert consumed(broker.bootstrap_servers, TOPIC, 2, "read_committed") == own.committed


def test_without_the_tier_a_new_folder_goes_on_with_what_is_there(own: Old, tmp_path: Path) -> None:
    new = tmp_path / "new"
    assert restore("--from-data", own.folder, "--into-data", new)[0] == 0
    with Broker({**own.settings, "log.dirs": str(new)}, profile="dev") as broker:
        assert consumed(broker.bootstrap_servers, TOPIC, 2, "read_committed") == own.committed
        assert consumed(broker.bootstrap_servers, TOPIC, 2, "read_uncommitted") == own.everything
        produce(broker.bootstrap_servers, TOPIC, [b"more" * 250] * 10, partition=0)
        broker.restart()
        assert len(consumed(broker.bootstrap_servers, TOPIC, 2, "read_committed")) == len(own.committed) + 10


def test_the_tier_alone_is_what_a_lost_disk_has_left(old: Old, tmp_path: Path) -> None:
    new = tmp_path / "new"
    with Broker({"log.dirs": str(new), "log.retention.ms": "-1"}, profile="dev") as broker:
        create_topic(broker.bootstrap_servers, TOPIC, 2)
    status, result = restore(*old.asked, "--topic", TOPIC, "--into-data", new)
    assert (status, lost(result)) == (0, {})
    tier = ["--topic", TOPIC, *old.audited[4:]]
    assert audit(*tier, "--against-data", new)[0] == 0
    ends = {one["partition"]: one["end"] for one in result["partitions"]}
    assert ends == {number: local_start(old.folder, number) for number in (0, 1)}
    unknown = {one["partition"] for one in result["partitions"] if one["open_transactions"]}
    with Broker({"log.dirs": str(new), "log.retention.ms": "-1"}, profile="dev") as broker:
        found = consumed(broker.bootstrap_servers, TOPIC, 2, "read_uncommitted")
    for number, end in ends.items():
        wanted = [one for one in old.committed if one[0] == number and one[1] < end]
        there = [one for one in found if one[0] == number]
        assert there == wanted[: len(there)]
        assert len(wanted) - len(there) in (range(1, 20) if number in unknown else (0,))  # a transaction has 20 records


def test_the_tier_becomes_a_topic_of_a_running_cluster_with_its_groups(
    old: Old, broker: Broker, topic: str, tmp_path: Path
) -> None:
    table = tmp_path / "map.parquet"
    asked = ["--from-data", old.folder, *old.asked, "--topic", TOPIC]
    asked += ["--bootstrap", broker.bootstrap_servers, "--into-topic", topic, "--map", table]
    status, result = restore(*asked, "--groups", "all")
    assert (status, lost(result)) == (0, {})
    found = consumed(broker.bootstrap_servers, topic, 2, "read_committed")
    assert contents(found) == contents(old.committed)
    assert audit(*old.audited, "--against-bootstrap", broker.bootstrap_servers, "--map", table)[0] == 0
    (moved,) = result["groups"]
    assert (moved["group"], moved["offsets"]["0"][0], moved["offsets"]["1"][0]) == (GROUP, 100, 200)
    places = {(one[0], one[1]): new for one, new in zip(old.committed, found, strict=True)}
    after = min(place for place in places if place[0] == 1 and place[1] >= 200)
    assert moved["offsets"]["1"][1] == places[after][1]


def test_a_lost_object_is_named_and_costs_nothing_else(
    old: Old, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if "rsm.config.dir" not in old.settings:
        pytest.skip("the folder store has an object to remove; of S3 the unit tests have it")
    tier = shutil.copytree(old.asked[1], tmp_path / "tier")
    gone = sorted(tier.glob(f"*/{TOPIC}-0-*/*.log"))[1]
    gone.unlink()
    status, result = restore("--from-data", old.folder, "--from-tier", tier, "--into-data", tmp_path / "new")
    ((first, last),) = lost(result)[0]
    assert (status, first) == (1, int(gone.name[:20]))
    (partition,) = [one for one in result["partitions"] if (one["topic"], one["partition"]) == (TOPIC, 0)]
    assert any(gone.name in text for text in partition["damage"])
    settings = {**old.settings, "log.dirs": str(tmp_path / "new"), "rsm.config.dir": str(tmp_path / "other")}
    with Broker(settings, profile="dev") as broker:
        wanted = [one for one in old.committed if one[0] != 0 or not first <= one[1] <= last]
        assert consumed(broker.bootstrap_servers, TOPIC, 2, "read_committed") == wanted
        wait_until_tiered(tmp_path / "new")
        assert consumed(broker.bootstrap_servers, TOPIC, 2, "read_committed") == wanted


def test_a_restore_that_is_killed_is_repeated(tmp_path: Path) -> None:
    """Kill -9 in the middle of the first partition."""
    old, new, tier = (tmp_path / name for name in ("old", "new", "tier"))
    settings = {**SETTINGS, "rsm.config.dir": str(tier), "remote.log.storage.manager.class.name": "folder"}
    with Broker({**settings, "log.dirs": str(old)}, profile="dev") as broker:
        config = TIERED | {"internal.segment.bytes": "2000000"}
        create_topic(broker.bootstrap_servers, TOPIC, 2, **{key.replace(".", "_"): one for key, one in config.items()})
        for partition in (0, 1):
            produce(broker.bootstrap_servers, TOPIC, [b"%d" % n * 30_000 for n in range(1000)], partition=partition)
        wait_until_tiered(old)
        wanted = consumed(broker.bootstrap_servers, TOPIC, 2, "read_committed")
    asked = ["--from-data", str(old), "--from-tier", str(tier), "--into-data", str(new)]
    job = subprocess.Popen([*JOB, *asked], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while job.poll() is None and not any(log.stat().st_size for log in new.glob(f"{TOPIC}-0/*.log")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        job.kill()
        job.wait()
    assert (new / "odradek-restore.json").exists(), "it had ended before it was killed"
    assert restore(*asked)[0] == 0
    with Broker({**settings, "log.dirs": str(new)}, profile="dev") as broker:
        assert consumed(broker.bootstrap_servers, TOPIC, 2, "read_committed") == wanted
