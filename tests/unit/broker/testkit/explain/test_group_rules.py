"""Each rule about a group, on a whole node."""

from __future__ import annotations

import pytest

from broker.replication.log_maintenance import delete_records
from broker.testkit.control.endpoint import ControlError
from broker.testkit.control.faults import faults_of
from tests.unit.broker.members import CONFIG, ClassicMember, ConsumerMember, commit
from tests.unit.broker.rig import Rig
from tests.unit.broker.testkit.control.asking import control, keep_journal
from tests.unit.broker.testkit.explain.findings import found
from tests.unit.broker.transactions import Producer
from tests.unit.broker.wire import batch, fetch, produce


async def reading(rig: Rig, member: ClassicMember, *places: tuple[str, int, int], committed: bool = False) -> None:
    """The member's consumer fetches at these places, on a connection of its own."""
    client = rig.connect()
    fields = fetch(places, max_wait_ms=0, isolation_level=int(committed))
    await client.ask("fetch", 12, client_id=member.client_id, **fields)


async def fill(rig: Rig, topic: str, count: int) -> None:
    await rig.connect().ask("produce", 9, **produce(topic, {0: batch(*[b"v"] * count)}))


async def test_a_group_that_does_not_exist_has_a_near_name() -> None:
    async with Rig(config=CONFIG) as rig:
        assert "group_does_not_exist" in await found(rig, group="readers")
        await rig.create("t")
        await commit(rig.connect(), "readers", "t", {0: 0})
        finding = (await found(rig, group="reader"))["group_does_not_exist"]
        assert finding["severity"] == "problem"
        assert "Did you mean readers?" in finding["advice"]


async def test_an_empty_group_says_what_it_has() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        await commit(rig.connect(), "g", "t", {0: 0})
        finding = (await found(rig, group="g"))["group_is_empty"]
        assert finding["text"] == "group g is Empty: it has no members; 1 partition with committed offsets"


async def test_a_rebalance_waits_for_who_has_not_joined_again() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        await ClassicMember(rig, "g", "t", client_id="silent").enter({"t": [0, 1]})
        await ClassicMember(rig, "g", "t", client_id="new").send_join()
        await rig.clock.run(4_000)
        finding = (await found(rig, group="g"))["waits_for_members_to_join"]
        assert "has been rebalancing for 4.0 s because member silent-" in finding["text"]
        assert "(client silent at 10.0.0.7) has not joined again" in finding["text"]
        assert "removed in 6.0 s at most" in finding["text"]
        assert '.expire("silent-' in finding["advice"]
        await control(rig, "POST", "/groups/g/expire", member="silent")
        assert "waits_for_members_to_join" not in await found(rig, group="g")


async def test_a_member_id_given_out_and_not_used_is_waited_for() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        member = ClassicMember(rig, "g", "t")
        await member.enter({"t": [0]})
        lost = ClassicMember(rig, "g", "t", client_id="lost")
        lost._join()
        await rig.clock.run(0)
        await control(rig, "POST", "/groups/g/rebalance")
        await member.send_join()
        finding = (await found(rig, group="g"))["waits_for_members_to_join"]
        assert "waits for a consumer that was given the member id lost-" in finding["text"]


async def test_the_initial_delay_is_named() -> None:
    async with Rig(config={**CONFIG, "group.initial.rebalance.delay.ms": "3000"}) as rig:
        await rig.create("t")
        await ClassicMember(rig, "g", "t").send_join()
        finding = (await found(rig, group="g"))["waits_for_members_to_join"]
        assert "waiting for 0.0 s for more members" in finding["text"]
        assert "group.initial.rebalance.delay.ms" in finding["advice"]


async def test_the_leader_s_sync_group_is_waited_for() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        member = ClassicMember(rig, "g", "t")
        await member.send_join()
        member.joined()
        await rig.clock.run(2_000)
        finding = (await found(rig, group="g"))["waits_for_sync"]
        assert (
            f"waiting for the SyncGroup of member {member.member_id} (client c1 at 10.0.0.7), the leader"
            in (finding["text"])
        )
        assert "for 2.0 s, until it is removed in 8.0 s; nobody has partitions until then" in finding["text"]
        await member.sync({member.member_id: {"t": [0]}})
        assert "waits_for_sync" not in await found(rig, group="g")


async def test_in_a_stable_group_a_member_without_its_sync_has_no_partitions() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        leader = ClassicMember(rig, "g", "t", client_id="c1")
        await leader.enter({"t": [0, 1]})
        follower = ClassicMember(rig, "g", "t", client_id="c2")
        await follower.send_join()
        await leader.send_join()
        leader.joined()
        follower.joined()
        await leader.sync({leader.member_id: {"t": [0]}, follower.member_id: {"t": [1]}})
        finding = (await found(rig, group="g"))["waits_for_sync"]
        assert f"the SyncGroup of member {follower.member_id}" in finding["text"]
        assert finding["text"].endswith("it has no partitions")


async def test_the_consumer_protocol_waits_for_a_heartbeat_or_for_partitions_to_be_given_up() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        first, second = (ConsumerMember(rig, "g", "t", client_id=name) for name in ("c1", "c2"))
        await first.heartbeat()
        await second.heartbeat()
        finding = (await found(rig, group="g"))["waits_for_revocation"]
        assert f"Reconciling: it waits for member {first.member_id} (client c1 at 10.0.0.7)" in finding["text"]
        await control(rig, "POST", "/groups/g/rebalance")
        assert "is Assigning" in (await found(rig, group="g"))["waits_for_revocation"]["text"]


async def test_a_topic_that_does_not_exist_is_named_with_its_subscribers() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("orders")
        await ClassicMember(rig, "g", "order", "orders").enter({"orders": [0]})
        finding = (await found(rig, group="g"))["topics_do_not_exist"]
        assert "(client c1 at 10.0.0.7) subscribed to topic order, which does not exist" in finding["text"]
        assert "Did you mean orders?" in finding["advice"]


async def test_a_partition_without_an_owner_is_named() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 3)
        await ClassicMember(rig, "g", "t").enter({"t": [0, 2]})
        finding = (await found(rig, group="g"))["partitions_without_owner"]
        assert finding["text"] == "no member of group g owns t-1, though the group is subscribed"
        assert "rebalance()" in finding["advice"]


@pytest.mark.parametrize("partitions", [1, 2])
async def test_more_members_than_partitions_leave_some_without(partitions: int) -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", partitions)
        members = [ConsumerMember(rig, "g", "t", client_id=name) for name in ("c1", "c2")]
        for member in (*members, *members):
            await member.heartbeat([])
        rules = await found(rig, group="g")
        if partitions == 2:
            assert "members_without_partitions" not in rules
            return
        assert rules["members_without_partitions"]["severity"] == "warning"
        assert "has no partitions: 2 members share 1 partition" in rules["members_without_partitions"]["text"]


# -- what it reads


async def test_a_transaction_that_holds_readers_back_is_named_with_client_and_age() -> None:
    async with Rig(config=CONFIG) as rig:
        keep_journal(rig)
        await rig.create("t")
        await rig.node.coordinators.transactions.ensure_topic()
        producer = Producer(rig.connect(), "payments")
        await producer.init()
        await producer.produce(b"a", 0)
        member = ClassicMember(rig, "g", "t")
        await member.enter({"t": [0]})
        await rig.clock.run(4_000)
        rules = await found(rig, group="g")
        assert rules["held_by_transaction"]["severity"] == "warning", "nobody fetches yet"
        await reading(rig, member, ("t", 0, 0), committed=True)
        rules = await found(rig, group="g")
        finding = rules["held_by_transaction"]
        assert finding["severity"] == "problem"
        assert finding["text"] == (
            "the last stable offset of t-0 is held at 0 by the transaction of transactional id payments (client test "
            "at 10.0.0.7), open for 4 s; 1 record behind it, and c1 reads committed records only"
        )
        assert finding["advice"].endswith("or end it with odradek transactions abort payments"), "for operators"
        rig.node.faults = faults_of(rig.node)  # the control interface is open
        finding = (await found(rig, group="g"))["held_by_transaction"]
        assert 'broker.transaction("payments").abort()' in finding["advice"]
        assert "isolation.level read_committed" in rules["reads_committed"]["text"]
        await control(rig, "POST", "/transactions/payments/abort")
        assert "held_by_transaction" not in await found(rig, group="g")


async def test_a_reader_of_everything_is_not_held_back() -> None:
    async with Rig(config=CONFIG) as rig:
        keep_journal(rig)
        await rig.create("t")
        await rig.node.coordinators.transactions.ensure_topic()
        producer = Producer(rig.connect())
        await producer.init()
        await producer.produce(b"a", 0)
        member = ClassicMember(rig, "g", "t")
        await member.enter({"t": [0]})
        await reading(rig, member, ("t", 0, 0))
        rules = await found(rig, group="g")
        assert not {"held_by_transaction", "reads_committed"} & rules.keys()


async def test_a_committed_offset_out_of_range_says_which_side() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        await fill(rig, "t", 3)
        await control(rig, "POST", "/groups/g/reset_offsets", to=7, topic="t")
        finding = (await found(rig, group="g"))["committed_out_of_range"]
        assert "the committed offset 7 of t-0 is out of range: the log has 0 to 3 (there are no such" in finding["text"]
        await control(rig, "POST", "/groups/g/reset_offsets", to=1, topic="t")
        assert "committed_out_of_range" not in await found(rig, group="g")
        delete_records(rig.node.replicas.find("t", 0), 2)
        finding = (await found(rig, group="g"))["committed_out_of_range"]
        assert "the log has 2 to 3 (records before that were deleted)" in finding["text"]


async def test_a_member_that_does_not_fetch_is_named_with_the_time_of_its_last_fetch() -> None:
    async with Rig(config=CONFIG) as rig:
        keep_journal(rig)
        await rig.create("t", 2)
        member = ClassicMember(rig, "g", "t")
        await member.enter({"t": [0, 1]})
        await reading(rig, member, ("t", 0, 0))
        finding = (await found(rig, group="g"))["is_not_fetched"]
        assert "t-1 is assigned to member" in finding["text"]
        assert "does not fetch: it has sent no Fetch for it; its session ends in 10 s" in finding["text"]
        await reading(rig, member, ("t", 0, 0), ("t", 1, 0))
        assert "is_not_fetched" not in await found(rig, group="g")
        await rig.clock.run(6_000)
        assert "its last Fetch was 6.0 s ago" in (await found(rig, group="g"))["is_not_fetched"]["text"]


async def test_an_offset_that_is_not_there_is_asked_for() -> None:
    async with Rig(config=CONFIG) as rig:
        keep_journal(rig)
        await rig.create("t")
        member = ClassicMember(rig, "g", "t")
        await member.enter({"t": [0]})
        await reading(rig, member, ("t", 0, 5))
        finding = (await found(rig, group="g"))["reads_elsewhere"]
        assert finding["text"] == "c1 asks for offset 5 of t-0, which has 0 to 0"


async def test_a_consumer_at_the_end_waits_and_one_that_committed_it_has_nothing_new() -> None:
    async with Rig(config=CONFIG) as rig:
        keep_journal(rig)
        await rig.create("t")
        await fill(rig, "t", 2)
        member = ClassicMember(rig, "g", "t")
        await member.enter({"t": [0]})
        assert "auto.offset.reset" in (await found(rig, group="g"))["has_never_committed"]["text"]
        await reading(rig, member, ("t", 0, 2))
        await member.commit("t", {0: 2})
        rules = await found(rig, group="g")
        assert rules.keys() == {"nothing_new", "waits_for_new_records"}
        assert {finding["severity"] for finding in rules.values()} == {"info"}
        assert "group g has committed the end of t-0" in rules["nothing_new"]["text"]
        await fill(rig, "t", 1)
        assert not {"nothing_new", "waits_for_new_records"} & (await found(rig, group="g")).keys()
        await fill(rig, "t", 3)
        await rig.clock.run(1)
        await reading(rig, member, ("t", 0, 6))
        text = (await found(rig, group="g"))["fetched_and_not_committed"]["text"]
        assert text.startswith("4 records of t-0 were fetched and are not committed")


async def test_a_partition_whose_log_is_offline_is_named() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        await ClassicMember(rig, "g", "t").enter({"t": [0]})
        partition = rig.node.replicas.get("t", 0)
        partition.log.fail(OSError("gone"))
        assert "t-0 cannot be read" in (await found(rig, group="g"))["partition_is_offline"]["text"]
        assert "t-0 can be neither read" in (await found(rig, topic="t"))["partition_is_offline"]["text"]


async def test_exactly_one_subject_is_explained() -> None:
    async with Rig(config=CONFIG) as rig:
        for given in ({}, {"group": "g", "topic": "t"}):
            with pytest.raises(ControlError, match="expected"):
                await control(rig, "GET", "/explain", **given)
