"""What a ShareFetch waits for, what it acquires of a log that was cut, and of a topic that was deleted (KIP-932)."""

from __future__ import annotations

from tests.conformance.runner import Talk, Topic, scenario
from tests.conformance.scenarios.share_consumption import NO_TOPIC, VERSIONS, filled
from tests.conformance.share_members import ACCEPT, RELEASE, ShareConsumer, ShareGroup

ENOUGH_TIME_MS = 7000
"""A wait that something else ends."""


def cut(t: Talk, topic: Topic, offset: int) -> None:
    """Delete the records below the offset."""
    topics = [{"name": topic.name, "partitions": [{"partition_index": 0, "offset": offset}]}]
    t.main.call("delete_records", 2, {"topics": topics, "timeout": 5000})


@scenario("share_fetch", VERSIONS)
def share_min_bytes(t: Talk, v: int) -> None:
    """It counts the log's bytes from where the next record may be acquired, whoever has acquired what follows."""
    group = ShareGroup(t, v)
    topic = filled(t, group, 1)
    one = len(t.batch(1))
    m = group("m", topic)
    m.get("the first", topic)
    m.fetch("nothing there, none wanted", min_bytes=0, max_wait=ENOUGH_TIME_MS)
    m.fetch("nothing there, less than none wanted", min_bytes=-1, max_wait=ENOUGH_TIME_MS)
    m.begin(min_bytes=2 * one, max_wait=ENOUGH_TIME_MS)
    t.fill(topic, 0, t.batch(1))
    t.fill(topic, 0, t.batch(1))
    m.end("two batches come")
    t.fill(topic, 0, t.batch(1))
    m.fetch("one of many is there when the time is over", min_bytes=100 * one, max_wait=100)
    m.begin(min_bytes=100 * one, max_bytes=one, max_wait=ENOUGH_TIME_MS)
    t.fill(topic, 0, t.batch(1))
    m.end("no more than the most")
    m.acknowledge("releases the first", (topic, {0: [(0, 0, RELEASE)]}))
    m.fetch("what is held counts", min_bytes=5 * one, max_wait=ENOUGH_TIME_MS)
    m.acknowledge("releases it again", (topic, {0: [(0, 0, RELEASE)]}))
    m.begin(min_bytes=5 * one + 1, max_wait=ENOUGH_TIME_MS)
    t.fill(topic, 0, t.batch(1))
    m.end("one more comes")


@scenario("share_fetch", VERSIONS)
def share_min_bytes_of_two(t: Talk, v: int) -> None:
    """The bytes of all partitions count together."""
    group = ShareGroup(t, v)
    topic = filled(t, group, partitions=2)
    one = len(t.batch(1))
    m = group("m", topic)
    m.fetch("begins", (topic, {0: (), 1: ()}), max_wait=100)
    m.begin(min_bytes=2 * one, max_wait=ENOUGH_TIME_MS)
    t.fill(topic, 0, t.batch(1))
    t.fill(topic, 1, t.batch(1))
    m.end("one in each")
    for _ in range(4):
        t.fill(topic, 0, t.batch(1))
        t.fill(topic, 1, t.batch(1))
    m.fetch("each gets half of the bytes", max_bytes=4 * one)


@scenario("share_fetch", VERSIONS)
def share_wait_beside_an_error(t: Talk, v: int) -> None:
    """A partition that there is not is told when the wait for the others is over."""
    group = ShareGroup(t, v)
    topic = filled(t, group)
    m = group("m", topic)
    m.fetch("begins", (topic, {0: ()}), (NO_TOPIC, {0: ()}), max_wait=100)
    m.begin(max_wait=ENOUGH_TIME_MS)
    t.fill(topic, 0, t.batch(1))
    m.end("waits")
    nothing = [{"topic_id": topic.id, "partitions": [0]}]
    m.fetch("none but the error", max_wait=ENOUGH_TIME_MS, forgotten_topics_data=nothing)
    m.fetch(
        "an empty session", max_wait=ENOUGH_TIME_MS, forgotten_topics_data=[{"topic_id": NO_TOPIC, "partitions": [0]}]
    )


@scenario("share_fetch", VERSIONS)
def share_batch_sizes(t: Talk, v: int) -> None:
    group = ShareGroup(t, v)
    topic = filled(t, group, 3, 1, 4)
    m = group("m", topic)
    for number, size in enumerate((0, -1, -5, 1, 3, 4, 8)):
        m.get(f"batch size {size}", topic, batch_size=size)
        m.acknowledge(f"batch size {size}: accepted", (topic, {0: [(8 * number, 8 * number + 7, ACCEPT)]}))
        t.fill(topic, 0, t.batch(3), t.batch(1), t.batch(4))


@scenario("share_fetch", VERSIONS)
def share_cut_in_a_batch(t: Talk, v: int) -> None:
    group = ShareGroup(t, v)
    topic = filled(t, group, 4, 4)
    m = group("m", topic)
    m.fetch("begins", (topic, {0: ()}), max_records=0, max_wait=50)
    cut(t, topic, 2)
    m.get("after the cut", topic, batch_size=1)
    m.acknowledge("accepted", (topic, {0: [(2, 7, ACCEPT)]}))


def moved(t: Talk, v: int, *held: tuple[int, int, int]) -> tuple[ShareGroup, Topic, ShareConsumer]:
    """Batches of 2, 3, 3, all acquired, some of which are released or accepted."""
    group = ShareGroup(t, v)
    topic = filled(t, group, 2, 3, 3)
    m = group("m", topic)
    m.get("takes all", topic, batch_size=1)
    if held:
        m.acknowledge("tells", (topic, {0: [*held]}))
    return group, topic, m


@scenario("share_fetch", VERSIONS)
def share_cut_of_released(t: Talk, v: int) -> None:
    _, topic, m = moved(t, v, (0, 7, RELEASE))
    cut(t, topic, 3)
    m.fetch("a fetch over the cut", max_wait=300)
    m.fetch("the next", max_wait=300)
    m.acknowledge("below the cut", (topic, {0: [(2, 2, ACCEPT)]}))
    m.acknowledge("across the cut", (topic, {0: [(2, 4, ACCEPT)]}))
    m.acknowledge("the rest", (topic, {0: [(5, 7, ACCEPT)]}))


@scenario("share_fetch", VERSIONS)
def share_cut_of_held(t: Talk, v: int) -> None:
    group, topic, m = moved(t, v, (5, 7, RELEASE))
    cut(t, topic, 3)
    m.fetch("a fetch over the cut", max_wait=300)
    m.fetch("the next", max_wait=300)
    m.close("closes")
    other = group("other", topic)
    other.get("another one", topic)


@scenario("share_fetch", VERSIONS)
def share_cut_of_everything(t: Talk, v: int) -> None:
    _, topic, m = moved(t, v, (0, 1, ACCEPT), (2, 4, RELEASE))
    cut(t, topic, 8)
    m.fetch("a fetch over the cut", max_wait=300)
    m.fetch("the next", max_wait=50)
    t.fill(topic, 0, t.batch(2))
    m.get("what comes after", topic)
    m.acknowledge("accepted", (topic, {0: [(8, 9, ACCEPT)]}))


@scenario("share_fetch", VERSIONS)
def share_cut_before_the_first(t: Talk, v: int) -> None:
    """Loaded, and nothing acquired yet."""
    group = ShareGroup(t, v)
    topic = filled(t, group, 2, 3)
    m = group("m", topic)
    m.get("takes the first", topic, max_records=2)
    m.acknowledge("accepted", (topic, {0: [(0, 1, ACCEPT)]}))
    cut(t, topic, 3)
    m.fetch("a fetch over the cut", max_wait=300)
    m.fetch("the next", max_wait=300)


@scenario("share_fetch", VERSIONS)
def share_deleted_topic(t: Talk, v: int) -> None:
    group = ShareGroup(t, v)
    topic = filled(t, group, 2, 3)
    stays = t.topic("stays")
    m, other = group("m", topic), group("other", topic)
    m.get("takes the first", topic, max_records=2)
    t.main.call("delete_topics", 6, {"topics": [{"name": topic.name}], "timeout": 10_000})
    t.gone(topic.name)
    m.fetch("fetches", max_wait=50)
    m.fetch("told anew", max_wait=50)
    m.fetch("names it anew", (topic, {0: ()}), max_wait=50)
    m.fetch("names another partition of it", (topic, {1: ()}), max_wait=50)
    m.fetch("acknowledges with a fetch", (topic, {0: [(0, 0, ACCEPT)]}), max_wait=50)
    m.fetch("acknowledges and fetches none", (topic, {0: [(0, 0, ACCEPT)]}), max_records=0, max_wait=50)
    m.acknowledge("acknowledges", (topic, {0: [(0, 1, ACCEPT)]}))
    m.fetch("beside one that is there", (stays, {0: ()}), max_wait=50)
    m.fetch("forgotten", max_wait=50, forgotten_topics_data=[{"topic_id": topic.id, "partitions": [0, 1]}])
    m.fetch("after that", max_wait=50)
    other.fetch("a new session", (topic, {0: ()}), max_wait=50)
    other.fetch("goes on", max_wait=50)
    m.close("closes")
