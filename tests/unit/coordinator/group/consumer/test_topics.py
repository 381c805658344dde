"""What becomes of the topics that a group subscribes to, it learns with its next heartbeat."""

from __future__ import annotations

from tests.unit.coordinator.group.consumer.clients import ConsumerClient
from tests.unit.coordinator.group.consumer.rig import ConsumerRig, log_tells


async def test_a_topic_that_is_created_grows_and_goes_changes_the_target_each_time() -> None:
    rig = await ConsumerRig.having({"b": 1})
    member = ConsumerClient(rig, "m1", "a")
    assert member.beat().assigned == {}
    assert (rig.epochs, rig.consumers.metadata_hash) == ((2, 2), 0)
    rig.create("a", 2)
    assert rig.epochs == (2, 2)
    answer = member.beat_briefly()
    assert (answer.member_epoch, answer.assigned) == (3, rig.of(a=(0, 1)))
    rig.grow("a", 3)
    assert member.beat_briefly().assigned == rig.of(a=(0, 1, 2))
    assert rig.epochs == (4, 4)
    rig.drop("a")
    assert member.beat().assigned == {}
    assert member.beat().member_epoch == 5, "having given up what is no more"
    assert (rig.epochs, rig.consumers.metadata_hash) == ((5, 5), 0)
    rig.create("a", 2)
    assert member.beat_briefly().assigned == rig.of(a=(0, 1)), "under its new id"
    assert rig.counts.consumer_rebalances == 5
    assert await log_tells(rig)


async def test_other_topics_change_nothing() -> None:
    rig = await ConsumerRig.having({"a": 4})
    member = ConsumerClient(rig, "m1", "a")
    member.beat()
    rig.create("b", 2)
    rig.grow("b", 3)
    rig.drop("b")
    rig.shard.groups.modern.topic_changed("a")
    assert member.beat_briefly().assigned is None
    assert (rig.epochs, rig.counts.consumer_rebalances) == ((2, 2), 1)


async def test_changes_while_the_coordinator_was_away_are_found_after_the_start() -> None:
    rig = await ConsumerRig.having({"a": 2})
    member = ConsumerClient(rig, "m1", "a")
    member.beat()
    rig.topics.grow("a", 3)
    assert member.beat_briefly().assigned is None
    await rig.restart()
    assert member.beat_briefly().assigned == rig.of(a=(0, 1, 2))


async def test_a_member_may_subscribe_to_other_topics() -> None:
    rig = await ConsumerRig.having({"a": 2, "b": 2})
    first, second = ConsumerClient(rig, "m1", "a"), ConsumerClient(rig, "m2", "a", "b")
    for member in (first, second, first, first, second):
        member.beat()
    assert (first.owned, second.owned) == (rig.of(a=(0, 1)), rig.of(b=(0, 1)))
    first.topics = ("b",)
    for member in (first, second) * 3:
        member.beat()
    assert rig.consumers.state_name == "Stable"
    assert rig.consumers.subscribed_topics == {"a", "b"}
    assert rig.epochs == (4, 4)
    assert second.owned.items() >= rig.of(a=(0, 1)).items()
    assert await log_tells(rig)
