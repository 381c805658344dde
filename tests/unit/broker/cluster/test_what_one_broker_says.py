"""What one broker of three says of the cluster: the same as the others, since leaders and coordinators are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsTopic

from broker.observe.collector import MetricsReader
from broker.testkit.control.endpoint import TIMED_OUT, ControlError
from broker.testkit.control.faults import faults_of
from broker.testkit.journal import Exchange
from protocol.api.table import API_BY_NAME
from protocol.errors import KafkaError
from tests.unit.broker.cluster.three_brokers import ALL_PARTITIONS, GROUP, TRANSACTION, Cluster, Producer
from tests.unit.broker.members import CONFIG, ClassicMember, ConsumerMember, commit
from tests.unit.broker.scraping import only, samples
from tests.unit.broker.testkit.control.asking import control, keep_journal
from tests.unit.broker.wire import NOW, batch, produce

LIST_OFFSETS = API_BY_NAME["list_offsets"].key
EACH = (1, 2, 3)
ALL = range(ALL_PARTITIONS)
QUICK = {name.replace(".", "_"): value for name, value in CONFIG.items() if "partitions" not in name}


async def fill(cluster: Cluster, records: int = 7, topic: str = "t", partitions: range = ALL) -> None:
    for index in partitions:
        client = cluster.client(cluster.leader(index, topic))
        answer = await cluster.ask(client, "produce", 9, **produce(topic, {index: batch(*[b"v"] * records)}))
        assert answer.responses[0].partition_responses[0].error_code.name == "none"


async def committed(
    cluster: Cluster, group: str, coordinator: int, offsets: Mapping[int, int], topic: str = "t"
) -> None:
    wanted = commit(cluster.client(coordinator), group, topic, offsets)
    assert await cluster.during(wanted) == ["none"] * len(offsets)


async def said(cluster: Cluster, method: str, path: str, **given: Any) -> Any:
    """What every broker says, which is the same."""
    asked = [await cluster.during(control(cluster.nodes[node], method, path, **given)) for node in EACH]
    assert asked[1:] == asked[:1] * 2
    return asked[0]


async def asked(cluster: Cluster, node: int, method: str, path: str, **given: Any) -> Any:
    return await cluster.during(control(cluster.nodes[node], method, path, **given))


# -- lag and offsets


async def test_lag_is_of_all_partitions_whoever_leads_them() -> None:
    async with Cluster() as cluster:
        group = await cluster.named(GROUP, 2)
        await fill(cluster)
        await committed(cluster, group, 2, dict.fromkeys(ALL, 0))
        lag = await said(cluster, "GET", f"/groups/{group}/lag")
        assert [(one["partition"], one["end"], one["lag"]) for one in lag["partitions"]] == [(i, 7, 7) for i in ALL]
        assert lag["total"] == 42
        offsets = (await said(cluster, "GET", "/topics/t/offsets"))["partitions"]
        assert offsets == {str(index): {"start": 0, "stable": 7, "end": 7} for index in ALL}
        with pytest.raises(ControlError, match="lag 42"):
            await asked(cluster, 2, "POST", f"/groups/{group}/wait", lag=20, timeout=0)
        await committed(cluster, group, 2, dict.fromkeys(ALL, 7))
        for node in EACH:
            assert (await asked(cluster, node, "POST", f"/groups/{group}/wait", lag=0, timeout=0))["lag"] == 0


async def test_the_old_high_watermark_of_a_follower_is_not_told_as_the_end() -> None:
    async with Cluster(replicas=3) as cluster:
        await cluster.create_replicated("r")
        leader = cluster.leader(0, "r")
        coordinator = next(node for node in EACH if node != leader)
        group = await cluster.named(GROUP, coordinator)
        await committed(cluster, group, coordinator, {0: 0}, "r")
        for written in range(1, 4):
            await cluster.produce(cluster.client(leader), "r")
            lag = await asked(cluster, coordinator, "GET", f"/groups/{group}/lag")
            assert lag["total"] == written


async def test_offsets_are_reset_in_all_partitions_whoever_leads_them() -> None:
    async with Cluster() as cluster:
        group = await cluster.named(GROUP, 3)
        await fill(cluster, 3)
        for to, offset in (("latest", 3), ("earliest", 0), (2, 2), (moment(1), 1), (moment(99), 3)):
            answer = await asked(cluster, 3, "POST", f"/groups/{group}/reset_offsets", to=to, topic="t")
            assert {one["partition"]: one["offset"] for one in answer["partitions"]} == dict.fromkeys(ALL, offset)
        await asked(cluster, 3, "POST", f"/groups/{group}/reset_offsets", to="earliest")
        told = (await said(cluster, "GET", f"/groups/{group}/committed"))["partitions"]
        assert [one["offset"] for one in told] == [0] * ALL_PARTITIONS


def moment(ms: int) -> str:
    """A time after the first record's."""
    return datetime.fromtimestamp((NOW + ms) / 1000, UTC).isoformat()


@pytest.mark.long
async def test_a_reset_that_cannot_be_whole_resets_nothing_and_says_which_partition() -> None:
    async with Cluster() as cluster:
        group = await cluster.named(GROUP, 2)
        await fill(cluster)
        await committed(cluster, group, 2, dict.fromkeys(ALL, 1))
        await cluster.kill(3)
        lost = [f"t-{index}" for index in ALL if cluster.leader(index) == 3]
        for _ in ("before the controller knows", "after that"):
            with pytest.raises(ControlError, match="no offset was reset") as caught:
                await asked(cluster, 2, "POST", f"/groups/{group}/reset_offsets", to="latest")
            assert [name for name in lost if name in str(caught.value)] == lost
            lag = await asked(cluster, 2, "GET", f"/groups/{group}/lag")
            unknown = {f"t-{one['partition']}" for one in lag["partitions"] if one["lag"] is None}
            assert unknown == set(lost)
            assert lag["total"] is None
            await cluster.clock.run(20_000)
        assert await asked(cluster, 2, "POST", f"/groups/{group}/reset_offsets", to=4)


async def test_records_are_deleted_from_all_partitions_whoever_leads_them() -> None:
    async with Cluster() as cluster:
        await fill(cluster)
        answer = await asked(cluster, 1, "POST", "/topics/t/truncate", before=5)
        assert {int(index): one["start"] for index, one in answer["partitions"].items()} == dict.fromkeys(ALL, 5)


async def test_records_that_another_broker_has_are_not_left_out_in_silence() -> None:
    async with Cluster() as cluster:
        await fill(cluster, 1)
        led = next(index for index in ALL if cluster.leader(index) == 1)
        assert len((await asked(cluster, 1, "GET", "/topics/t/records", partition=led))["records"]) == 1
        for method, path, given in (("GET", "records", {}), ("POST", "wait", {"count": 1})):
            with pytest.raises(KafkaError, match=r"broker [23] leads t-") as caught:
                await asked(cluster, 1, method, f"/topics/t/{path}", **given)
            assert caught.value.code.name == "not_leader_or_follower"


# -- groups and transactions of other coordinators


async def test_a_group_is_seen_by_brokers_that_do_not_coordinate_it() -> None:
    async with Cluster(1, **QUICK) as cluster:
        group = await cluster.named(GROUP, 2)
        member = ClassicMember(cluster.nodes[2], group, "t", client_id="reader")
        await member.enter({"t": list(ALL)})
        seen = [await asked(cluster, node, "GET", f"/groups/{group}") for node in EACH]
        for one in seen:
            (shown,) = one["members"]
            assert (one["state"], one["protocol"], one["assignor"]) == ("Stable", "classic", "range")
            assert (shown["client_id"], shown["topics"], shown["assignment"]) == ("reader", ["t"], {"t": list(ALL)})
        listed = (await said(cluster, "GET", "/groups"))["groups"]
        assert listed == [{"group": group, "state": "Stable", "protocol": "classic", "members": 1}]
        with pytest.raises(KafkaError, match="broker 2 coordinates") as caught:
            await asked(cluster, 1, "POST", f"/groups/{group}/rebalance")
        assert caught.value.code.name == "not_coordinator"


async def test_a_group_of_the_consumer_protocol_is_seen_by_brokers_that_do_not_coordinate_it() -> None:
    async with Cluster(1, **QUICK) as cluster:
        group = await cluster.named(GROUP, 3)
        member = ConsumerMember(cluster.nodes[3], group, "t", client_id="reader")
        await member.heartbeat()
        for one in [await asked(cluster, node, "GET", f"/groups/{group}") for node in EACH]:
            (shown,) = one["members"]
            assert (one["state"], one["protocol"], one["generation"]) == ("Stable", "consumer", member.epoch)
            assert (shown["topics"], shown["assignment"]) == (["t"], {"t": list(ALL)})


async def test_a_wait_for_a_group_of_another_coordinator_ends_when_it_is_so() -> None:
    async with Cluster(1, **QUICK) as cluster:
        group = await cluster.named(GROUP, 2)
        await fill(cluster)
        await committed(cluster, group, 2, {0: 1})
        waiting = asyncio.ensure_future(
            control(cluster.nodes[1], "POST", f"/groups/{group}/wait", state="Empty", lag=0, timeout=60)
        )
        await cluster.clock.run(1_000)
        assert not waiting.done()
        await committed(cluster, group, 2, {0: 7})
        assert (await cluster.during(waiting))["lag"] == 0


async def test_an_open_transaction_is_seen_by_every_broker_with_what_it_holds() -> None:
    async with Cluster() as cluster:
        name = await cluster.named(TRANSACTION, 3)
        producer = Producer(cluster, name, 3)
        await producer.init()
        for index in ALL:
            assert await producer.send(index, b"v") == "none"
        shown = await said_at_once(cluster, *(control(cluster.nodes[n], "GET", f"/transactions/{name}") for n in EACH))
        assert {(one["state"], one["producer_id"], len(one["partitions"]["t"])) for one in shown} == {
            ("Ongoing", producer.producer_id, ALL_PARTITIONS)
        }
        for node in EACH:
            found = await findings(cluster, node, topic="t")
            assert found["held_by_transaction"].count(f"transactional id {name}") == ALL_PARTITIONS
            assert "holds_readers" in await findings(cluster, node, transactional_id=name)
            listed = (await asked(cluster, node, "GET", "/transactions"))["transactions"]
            assert [one["transactional_id"] for one in listed] == [name]


async def test_a_transaction_that_did_not_begin_is_seen_by_every_broker() -> None:
    async with Cluster() as cluster:
        name = await cluster.named(TRANSACTION, 3)
        await Producer(cluster, name, 3).init()
        shown = await said_at_once(cluster, *(control(cluster.nodes[n], "GET", f"/transactions/{name}") for n in EACH))
        assert {(one["state"], len(one["partitions"])) for one in shown} == {("Empty", 0)}


async def said_at_once(cluster: Cluster, *questions: Awaitable[Any]) -> list[Any]:
    return [await cluster.during(question) for question in questions]


# -- explain, the report, metrics


async def findings(cluster: Cluster, node: int, **subject: str) -> dict[str, str]:
    """The texts by rule, those of one rule joined."""
    answer = await asked(cluster, node, "GET", "/explain", **subject)
    found: dict[str, str] = {}
    for one in answer["findings"]:
        found[one["rule"]] = f"{found.get(one['rule'], '')} {one['text']}"
    return found


async def test_healthy_partitions_of_other_brokers_are_explained_as_such() -> None:
    async with Cluster() as cluster:
        group = await cluster.named(GROUP, 2)
        await fill(cluster)
        await committed(cluster, group, 2, dict.fromkeys(ALL, 7))
        for node in EACH:
            of_topic = await findings(cluster, node, topic="t")
            assert set(of_topic) == {"is_read_by", "has_records"}
            assert group in of_topic["is_read_by"]
            assert set(await findings(cluster, node, group=group)) == {"group_is_empty", "nothing_new"}


async def test_a_member_that_fetches_from_other_brokers_is_not_said_to_be_silent() -> None:
    async with Cluster(1, **QUICK) as cluster:
        group = await cluster.named(GROUP, 2)
        member = ClassicMember(cluster.nodes[2], group, "t")
        keep_journal(cluster.nodes[2])
        await member.enter({"t": list(ALL)})
        elsewhere = {f"t-{index}" for index in ALL if cluster.leader(index) != 2}
        found = await findings(cluster, 2, group=group)
        assert not [name for name in elsewhere if name in found["is_not_fetched"]]
        assert [name for name in elsewhere if name in found["fetches_are_seen_elsewhere"]]


async def test_a_leader_that_does_not_answer_is_named_and_nothing_is_made_up() -> None:
    async with Cluster() as cluster:
        await fill(cluster)
        lost = {index for index in ALL if cluster.leader(index) == 3}
        await cluster.kill(3)
        found = await findings(cluster, 1, topic="t")
        assert "broker 3 leads t-" in found["offsets_are_unknown"]
        assert "has_no_records" not in found
        assert "partition_is_offline" not in found
        keep_journal(cluster.nodes[1])
        report = await asked(cluster, 1, "GET", "/report")
        (topic,) = report["topics"]
        assert {one["partition"] for one in topic["partitions"] if "unknown" in one} == lost


async def test_the_report_of_every_broker_is_of_the_cluster() -> None:
    async with Cluster() as cluster:
        group = await cluster.named(GROUP, 2)
        await fill(cluster)
        await committed(cluster, group, 2, dict.fromkeys(ALL, 3))
        for node in EACH:
            keep_journal(cluster.nodes[node])
            report = await asked(cluster, node, "GET", "/report")
            (topic,) = report["topics"]
            assert [(one["partition"], one["end"]) for one in topic["partitions"]] == [(index, 7) for index in ALL]
            assert [(one["group"], one["lag"]["total"]) for one in report["groups"]] == [(group, 24)]


async def test_the_coordinator_exports_lag_of_partitions_that_other_brokers_lead_and_nobody_else_does() -> None:
    async with Cluster() as cluster:
        group = await cluster.named(GROUP, 2)
        await fill(cluster)
        await committed(cluster, group, 2, dict.fromkeys(ALL, 3))
        sums: dict[int, float] = {}
        for node in EACH:
            metrics = cluster.nodes[node].node.local.metrics
            await cluster.during(MetricsReader(metrics).prepare())
            sums[node] = sum(only(samples(metrics), "kafka_consumergroup_lag{").values())
        assert sums == {1: 0, 2: 24, 3: 0}
        await cluster.kill(3)
        metrics = cluster.nodes[2].node.local.metrics
        await cluster.during(MetricsReader(metrics).prepare())
        left = [index for index in ALL if cluster.leader(index) != 3]
        assert len(only(samples(metrics), "kafka_consumergroup_lag{")) == len(left)


# -- looking changes nothing


async def test_questions_of_other_brokers_are_in_no_journal_and_no_fault_strikes_them() -> None:
    async with Cluster() as cluster:
        await fill(cluster)
        leader = cluster.nodes[3]
        leader.node.faults, journal = faults_of(leader.node), keep_journal(leader)
        fault = await asked(cluster, 3, "POST", "/faults", api="ListOffsets", error="UNKNOWN_SERVER_ERROR")
        assert await asked(cluster, 1, "GET", "/topics/t/offsets")
        assert (await asked(cluster, 3, "GET", f"/faults/{fault['id']}"))["hits"] == 0
        assert [one for one in journal.since(None) if isinstance(one, Exchange) and one.api_key == LIST_OFFSETS] == []
        client = cluster.client(3)
        topics = (ListOffsetsTopic(name="t", partitions=(ListOffsetsPartition(partition_index=0, timestamp=-1),)),)
        fields = {"replica_id": -1, "isolation_level": 0, "topics": topics}
        await cluster.ask(client, "list_offsets", 7, **fields)
        assert (await asked(cluster, 3, "GET", f"/faults/{fault['id']}"))["hits"] == 1
        assert any(isinstance(one, Exchange) and one.api_key == LIST_OFFSETS for one in journal.since(None))


async def test_a_wait_is_not_over_because_a_coordinator_does_not_answer() -> None:
    async with Cluster() as cluster:
        group, transactional_id = await cluster.named(GROUP, 3), await cluster.named(TRANSACTION, 3)
        await committed(cluster, group, 3, {0: 0})
        await cluster.kill(3)
        for path, given in (
            (f"/groups/{group}", {"members": 0}),
            (f"/transactions/{transactional_id}", {"state": "Dead"}),
        ):
            with pytest.raises(ControlError, match="does not answer") as caught:
                await asked(cluster, 1, "POST", f"{path}/wait", timeout=0, **given)
            assert caught.value.status == TIMED_OUT
