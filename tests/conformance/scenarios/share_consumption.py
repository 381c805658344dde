"""ShareFetch and ShareAcknowledge (KIP-932): sessions, what is acquired, and what becomes of it.

A share partition is loaded when it is first fetched, and nobody asks whether the member is in the group.
"""

from __future__ import annotations

from tests.conformance.runner import Talk, Topic, scenario
from tests.conformance.share_members import (
    ACCEPT,
    BATCH_OPTIMIZED,
    GAP,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    RENEW,
    ShareGroup,
)
from tests.conformance.transactor import Transactor

VERSIONS = (1, 2)
NO_TOPIC = "0" * 31 + "7"
MAX_DELIVERIES = 5


def filled(t: Talk, group: ShareGroup, *sizes: int, partitions: int = 1) -> Topic:
    """A topic whose partition 0 has batches of these sizes, initialised for the group that reads from its beginning."""
    topic = t.topic("topic", partitions)
    group.configure(share_auto_offset_reset="earliest")
    group.ready(topic)
    t.fill(topic, 0, *(t.batch(size) for size in sizes))
    return topic


@scenario("share_fetch", VERSIONS)
def share_acquisition(t: Talk, v: int) -> None:
    group = ShareGroup(t, v)
    topic = filled(t, group, 3, 2, 4)
    a, b = group("a", topic), group("b", topic)
    a.get("a takes all", topic)
    a.fetch("nothing more for a", max_wait=50)
    b.fetch("nothing for b", (topic, {0: ()}), max_wait=50)
    a.acknowledge("some of each", (topic, {0: [(0, 2, ACCEPT), (3, 4, RELEASE), (5, 5, REJECT)]}))
    b.get("b takes what was released", topic)
    group.offsets("the start was written before that", topic, 0)
    a.fetch("accepted with a fetch", (topic, {0: [(6, 7, ACCEPT)]}), max_wait=50)
    b.fetch("released with a fetch", (topic, {0: [(3, 3, RELEASE)]}), max_wait=50)
    b.fetch("another's", (topic, {0: [(8, 8, ACCEPT)]}), max_wait=50)
    a.close("a closes")
    b.get("what a still had", topic)
    b.acknowledge("each by itself", (topic, {0: [(3, 4, [REJECT, ACCEPT])]}))
    b.close("b closes")


@scenario("share_fetch", VERSIONS)
def share_sessions(t: Talk, v: int) -> None:
    group = ShareGroup(t, v)
    topic = filled(t, group, 2, partitions=2)
    other = t.topic("other")
    m = group("m", topic)
    m.fetch("no session", share_session_epoch=3)
    m.fetch("closes none", share_session_epoch=-1)
    m.fetch("epoch -2", share_session_epoch=-2)
    m.get("opens", topic)
    m.fetch("a wrong epoch", share_session_epoch=9)
    m.fetch("the epoch before", share_session_epoch=m.session_epoch - 1)
    m.fetch("an unknown topic", (NO_TOPIC, {0: ()}), max_wait=50)
    m.fetch("told anew", max_wait=50)
    forgotten = [{"topic_id": NO_TOPIC, "partitions": [0]}]
    m.fetch("forgotten", max_wait=50, forgotten_topics_data=forgotten)
    m.fetch("an unknown partition", (topic, {7: ()}), max_wait=50)
    forgotten = [{"topic_id": topic.id, "partitions": [7]}]
    m.fetch("forgotten too", max_wait=50, forgotten_topics_data=forgotten)
    m.fetch("a topic that is not initialised", (other, {0: ()}), max_wait=50)
    m.fetch("opens anew", (topic, {0: ()}), share_session_epoch=0, max_wait=50)
    m.fetch("acknowledges while it opens", (topic, {0: [(0, 0, ACCEPT)]}), share_session_epoch=0, max_wait=50)
    m.fetch("closes", (topic, {0: [(0, 0, ACCEPT)]}), share_session_epoch=-1)
    m.fetch("after the end", share_session_epoch=1, max_wait=50)
    nobody = group("", topic)
    nobody.fetch("no member id", (topic, {0: ()}))
    group("x" * 37, topic).fetch("a member id of 37", (topic, {0: ()}))
    m.fetch("no group", (topic, {0: ()}), group_id=None, share_session_epoch=0)
    m.fetch("an empty group id", (topic, {0: ()}), group_id="", share_session_epoch=0, max_wait=50)


@scenario("share_fetch", VERSIONS)
def share_limits(t: Talk, v: int) -> None:
    group = ShareGroup(t, v)
    topic = filled(t, group, 3, 3, 4)
    m = group("m", topic)

    def get(step: str, *released: tuple[int, int], **limits: int) -> None:
        m.get(step, topic, **limits)
        m.acknowledge(f"{step}: released", (topic, {0: [(*one, RELEASE) for one in released]}))

    get("two at most", (0, 2), max_records=2)
    get("four at most", (0, 5), max_records=4)
    get("in ranges of two", (0, 9), batch_size=2)
    m.get("one byte", topic, max_bytes=1)
    m.fetch("none", max_records=0, max_wait=50)
    m.fetch("less than none", max_records=-1, max_wait=50)
    m.fetch("no bytes", max_bytes=0, max_wait=50)
    m.fetch("no bytes wanted", min_bytes=0, max_records=0, max_wait=50)
    late = group("late", topic)
    late.fetch("a session that begins with none", (topic, {0: ()}), max_records=0, max_wait=50)
    late.fetch("and goes on", max_wait=50)


@scenario("share_fetch", VERSIONS)
def share_acquired_again(t: Talk, v: int) -> None:
    """What was released as one range comes again as far as it is read."""
    group = ShareGroup(t, v)
    topic = filled(t, group, 3, 3, 4)
    m = group("m", topic)
    m.get("all at once", topic)
    m.acknowledge("released", (topic, {0: [(0, 9, RELEASE)]}))
    m.get("one byte of it", topic, max_bytes=1)
    m.get("the rest", topic)


@scenario("share_fetch", (2,))
def share_record_limit(t: Talk, v: int) -> None:
    group = ShareGroup(t, v)
    topic = filled(t, group, 3, 3, 4)
    m = group("m", topic)
    m.get("two exactly", topic, max_records=2, share_acquire_mode=RECORD_LIMIT)
    m.get("four exactly", topic, max_records=4, share_acquire_mode=RECORD_LIMIT)
    m.get("two in the other mode", topic, max_records=2, share_acquire_mode=BATCH_OPTIMIZED)
    m.fetch("an unknown mode", share_acquire_mode=2, max_wait=50)


@scenario("share_acknowledge", VERSIONS)
def share_acknowledgements_refused(t: Talk, v: int) -> None:
    group = ShareGroup(t, v)
    topic = filled(t, group, 5, 5, partitions=2)
    m = group("m", topic)
    m.get("takes all", topic)

    def wrong(step: str, *acknowledged: tuple[int, int, int | list[int]]) -> None:
        m.acknowledge(step, (topic, {0: list(acknowledged)}))  # type: ignore[arg-type]

    wrong("type 5", (0, 0, 5))
    wrong("type -1", (0, 0, -1))
    wrong("a renewal without its flag", (0, 0, RENEW))
    wrong("first above last", (2, 1, ACCEPT))
    wrong("too few types", (0, 2, [ACCEPT, ACCEPT]))
    wrong("too many types", (0, 1, [ACCEPT] * 3))
    wrong("no types", (0, 1, []))
    wrong("overlapping", (0, 2, ACCEPT), (2, 3, ACCEPT))
    wrong("overlapping by two", (0, 3, ACCEPT), (2, 4, ACCEPT))
    wrong("out of order", (3, 4, ACCEPT), (0, 1, ACCEPT))
    wrong("past the end", (8, 12, ACCEPT))
    wrong("far past the end", (100, 101, ACCEPT))
    wrong("below zero", (-2, -1, ACCEPT))
    wrong("nothing of a partition")
    wrong("good", (0, 1, ACCEPT), (2, 2, GAP))
    wrong("again", (0, 1, ACCEPT))
    wrong("across the start", (1, 3, ACCEPT))
    wrong("one good, one bad", (4, 4, ACCEPT), (6, 20, ACCEPT))
    wrong("still there", (4, 4, RELEASE))
    m.acknowledge("an unknown topic", (NO_TOPIC, {0: [(0, 0, ACCEPT)]}))
    m.acknowledge("an unknown partition", (topic, {9: [(0, 0, ACCEPT)]}))
    m.acknowledge("a partition that nobody fetched", (topic, {1: [(0, 0, ACCEPT)]}))
    m.acknowledge("nothing")
    m.acknowledge("a topic without partitions", (topic, {}))
    m.acknowledge("an unknown topic without batches", (NO_TOPIC, {0: []}))
    m.acknowledge("partitions without batches", (topic, {0: [], 1: [], 9: []}))
    m.acknowledge("one partition without batches, one with", (topic, {0: [(5, 5, ACCEPT)], 1: []}))
    m.acknowledge("one partition without batches, one that is wrong", (topic, {0: [(5, 5, 5)], 1: []}))
    m.fetch("with a fetch", (topic, {0: [(6, 6, ACCEPT)], 9: []}), max_wait=50)
    wrong("acquired by nobody, then past the end", (4, 12, [ACCEPT] * 9))
    m.acknowledge("a wrong epoch", (topic, {0: [(5, 5, ACCEPT)]}), share_session_epoch=77)
    m.acknowledge("epoch 0", (topic, {0: [(5, 5, ACCEPT)]}), share_session_epoch=0)
    group("stranger", topic).acknowledge("no session", (topic, {0: [(5, 5, ACCEPT)]}), share_session_epoch=1)


@scenario("share_acknowledge", (2,))
def share_renewals(t: Talk, v: int) -> None:
    group = ShareGroup(t, v)
    topic = filled(t, group, 4)
    m = group("m", topic)
    m.get("takes all", topic)
    m.acknowledge("renews", (topic, {0: [(0, 1, RENEW)]}), is_renew_ack=True)
    m.acknowledge("a flag without renewals", (topic, {0: [(0, 0, ACCEPT)]}), is_renew_ack=True)
    m.acknowledge("renews and accepts", (topic, {0: [(1, 2, [RENEW, ACCEPT])]}), is_renew_ack=True)
    nothing = {"max_wait": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    m.fetch("renews with a fetch", (topic, {0: [(1, 1, RENEW)]}), is_renew_ack=True, **nothing)
    m.fetch("renews and wants records", (topic, {0: [(1, 1, RENEW)]}), is_renew_ack=True)
    m.acknowledge("the end", (topic, {0: [(1, 1, ACCEPT), (3, 3, REJECT)]}))
    m.acknowledge("renews what is gone", (topic, {0: [(3, 3, RENEW)]}), is_renew_ack=True)


@scenario("share_fetch", VERSIONS)
def share_deliveries(t: Talk, v: int) -> None:
    """The delivery count goes up with each acquisition, and after the last one the record is not seen again."""
    group = ShareGroup(t, v)
    topic = filled(t, group, 1, 1)
    m = group("m", topic)
    for delivery in range(1, MAX_DELIVERIES + 1):
        m.get(f"delivery {delivery}", topic, max_records=1, max_bytes=1)
        m.acknowledge(f"released {delivery}", (topic, {0: [(0, 0, RELEASE)]}))
    m.get("the next record", topic)
    m.acknowledge("released once", (topic, {0: [(1, 1, RELEASE)]}))
    group.until_start(topic, 1)
    group.offsets("the start has moved", topic, 0)


@scenario("share_fetch", VERSIONS)
def share_isolation(t: Talk, v: int) -> None:
    """Control batches are acquired like records; data of aborted transactions are not, where it reads committed."""
    for level in ("read_uncommitted", "read_committed"):
        topic = t.topic(level)
        group = ShareGroup(t, v, f"shares {level}")
        group.configure(share_auto_offset_reset="earliest", share_isolation_level=level)
        group.ready(topic)
        tx = Transactor(t, level).start()
        for sequence, commit in enumerate((False, True)):
            tx.add(f"{level}: begins {sequence}", 3, (topic.name, 0))
            tx.produce(f"{level}: writes {sequence}", 9, topic, sequence)
            tx.ended(f"{level}: ends {sequence}", 3, commit)
        m = group("m", topic)
        m.get(level, topic)


@scenario("share_fetch", VERSIONS)
def share_resets(t: Talk, v: int) -> None:
    """Where a group begins: at the end unless its configuration says otherwise."""
    topic = t.topic("topic")
    t.fill(topic, 0, t.batch(3))
    members = {}
    for policy in ("latest", "earliest", "by_duration:PT1H", "by_duration:PT9H"):
        group = ShareGroup(t, v, f"shares {policy}")
        group.configure(share_auto_offset_reset=policy)
        group.ready(topic)
        members[policy] = group("m", topic)
        members[policy].take((topic, {0: ()}), max_wait=200)
        members[policy].fetch(policy, max_wait=200)
    t.fill(topic, 0, t.batch(1))
    members["latest"].get("latest: what came after", topic)
    members["by_duration:PT1H"].fetch("by_duration:PT1H: an old one came after", max_wait=200)
    t.fill(topic, 0, t.batch(1, base_timestamp=t.t0 + 3 * 3_600_000))
    members["by_duration:PT1H"].get("by_duration:PT1H: a new one came after", topic)


@scenario("share_fetch", VERSIONS)
def share_deleted_records(t: Talk, v: int) -> None:
    group = ShareGroup(t, v)
    topic = filled(t, group, 2, 3, 3)
    m = group("m", topic)
    m.get("takes the first", topic, max_records=2)
    cut = [{"name": topic.name, "partitions": [{"partition_index": 0, "offset": 5}]}]
    t.main.call("delete_records", 2, {"topics": cut, "timeout": 5000})
    m.get("after the cut", topic)
    m.acknowledge("what was cut", (topic, {0: [(0, 1, ACCEPT)]}))
    m.acknowledge("what was left", (topic, {0: [(5, 7, ACCEPT)]}))
