"""ConsumerGroupHeartbeat 0-1: topics that come, grow and go, and subscriptions by regular expression."""

from __future__ import annotations

import time
from typing import Any

from tests.conformance.consumer_members import Group
from tests.conformance.group_members import SHORT
from tests.conformance.runner import Talk, Topic, scenario

VERSIONS = (0, 1)


def delete(t: Talk, topic: Topic) -> None:
    t.main.call("delete_topics", 6, {"topics": [{"name": topic.name}], "timeout": 10_000})
    t.gone(topic.name)


@scenario("consumer_group_heartbeat", VERSIONS)
def topics_change(t: Talk, v: int) -> None:
    first, later = t.topic("first", 2), t.name("later")
    group = Group(t, v)
    a = group("a", first, later)
    b = group("b", first)
    a.join("a joins before its other topic is there")
    group.describe("the other topic is unknown")
    topic = t.topic("later", 3)
    a.settle("the other topic was created")
    group.describe("the other topic is known")
    grown = {"name": topic.name, "count": 4, "assignments": None}
    t.main.call("create_partitions", 3, {"topics": [grown], "timeout": 10_000})
    a.settle("it has one partition more")
    group.describe("four partitions")
    a.full("a tells everything")
    b.join("b joins")
    a.beat("a is told to revoke")
    a.owns("a has revoked")
    b.beat("b gets its share")
    group.describe("b has its share")
    delete(t, first)
    b.settle("the first topic was deleted")
    group.describe("b is to revoke what is gone")
    b.owns("b has revoked what is gone")
    a.beat("a goes on")
    group.describe("the first topic is gone")
    again = t.topic("first", 2)
    t.normalise.name_id(again.id, "id of first, the second")
    b.settle("a topic of that name was created")
    a.beat("a goes on again")
    group.describe("the name is there again")


@scenario("consumer_group_heartbeat", VERSIONS)
def topics_that_are_not_there(t: Talk, v: int) -> None:
    nowhere = t.name("nowhere")
    group = Group(t, v)
    a, b = group("a", nowhere), group("b")
    a.join("a joins")
    b.join("b joins with no topics at all")
    a.owns("a owns nothing")
    group.describe("nobody has anything")
    t.topic("nowhere", 2)
    a.settle("the topic was created")
    b.beat("b notices, and gets nothing")
    group.describe("a has it all")
    b.beat("b subscribes", subscribed_topic_names=[nowhere])
    group.describe("a is to share")


@scenario("consumer_group_heartbeat", VERSIONS)
def metadata_does_not_change(t: Talk, v: int) -> None:
    """A change of a topic without subscribers, or of a topic's config, changes no epoch."""
    topic = t.topic("topic", 2)
    group = Group(t, v)
    a = group("a", topic)
    a.join("a joins")
    t.topic("other", 2)
    entry = {"name": "retention.ms", "config_operation": 0, "value": "5000000"}
    resource = {"resource_type": 2, "resource_name": topic.name, "configs": [entry]}
    t.main.call("incremental_alter_configs", 1, {"resources": [resource], "validate_only": False})
    for number in (1, 2):
        a.beat(f"a goes on, {number}")
    group.describe("as it was")


def resolved(group: Group, epoch: int) -> None:
    """Wait for what the broker does after it answered."""
    group.t.until(f"epoch {epoch}", lambda: group.described()["group_epoch"] >= epoch)


@scenario("consumer_group_heartbeat", (1,))
def regular_expressions(t: Talk, v: int) -> None:
    one, two = t.topic("one", 2), t.topic("two", 2)
    prefix = t.prefix
    group = Group(t, v)
    group.sees(one, two)

    def wish(pattern: str, names: list[str] | None = None) -> dict[str, Any]:
        return {"subscribed_topic_regex": pattern, "subscribed_topic_names": names}

    a, b, c, d = (group(name) for name in "abcd")
    a.join("a joins", **wish(prefix + "t.*"))
    resolved(group, 2)
    group.describe("resolved")
    a.beat("a gets what matches")
    a.beat("a says the same again", subscribed_topic_regex=prefix + "t.*")
    b.join("b joins with the same", **wish(prefix + "t.*"))
    group.describe("one more that has it")
    d.join("d joins with another, too soon", **wish(prefix + "o.*"))
    time.sleep(SHORT)
    group.describe("another is not looked up yet")
    d.leave("d leaves")
    c.join("c joins with names too", **wish(prefix + "t.*", [one.name]))
    group.describe("an expression and names")
    b.beat("b takes a name instead", subscribed_topic_regex="", subscribed_topic_names=[one.name])
    a.beat("a takes an empty one", subscribed_topic_regex="")
    group.describe("c is the only one that has it")
    c.beat("c takes an empty one", subscribed_topic_regex="")
    group.describe("nobody has one")
    d.join("d joins with another, as nobody has one", **wish(prefix + "o.*"))
    resolved(group, d.epoch + 1)
    group.describe("another is looked up")
    d.leave("d leaves again")
    for m in (a, b, c):
        m.leave(f"{m.name} leaves")
    group.describe("Empty")


@scenario("consumer_group_heartbeat", (1,))
def what_an_expression_leaves_behind(t: Talk, v: int) -> None:
    """Whether subscriptions are alike is decided when a member changes, with what expressions have matched by then."""
    topics = [t.topic(name, 3) for name in ("one", "two", "three")]
    for name, by_name in (("names", topics[:2]), ("nothing else", [])):
        group = Group(t, v, f"group of {name}")
        group.sees(*topics)
        a, b, c, d = (
            group(member, *wanted) for member, wanted in zip("abcd", (topics[:1], by_name, topics[:1], []), strict=True)
        )
        a.join(f"{name}: a joins")
        b.join(f"{name}: b joins with an expression", subscribed_topic_regex=t.prefix + ".*")
        resolved(group, b.epoch + 1)
        c.join(f"{name}: c joins")
        b.leave(f"{name}: b leaves")
        d.join(f"{name}: d joins without topics", server_assignor="range", subscribed_topic_names=[])
        group.describe(f"{name}: at the end")


@scenario("consumer_group_heartbeat", (1,))
def regular_expressions_that_are_none(t: Talk, v: int) -> None:
    topic = t.topic("topic", 1)
    group = Group(t, v)
    patterns = ("(", "a)", "[a", "a**", "*", "a{2,1}", "a{1001}", "(?<=a)b", "(?=a)", r"\1", "\\", r"\p{Foo}", "(?P<n",
                "(?P<n>a)(?P<n>b)", "[b-a]", r"\8", "(?i", "a++", "x{2}{3}", "[[:foo:]]", r"\Qa", "(?z)", "é(",
                "(((((")  # fmt: skip
    m = group("m")
    for pattern in patterns:
        m.join(f"joins with {pattern}", subscribed_topic_regex=pattern, subscribed_topic_names=None)
        if m.epoch > 0:
            m.leave(f"leaves after {pattern}")
            m.epoch = 0
    group.describe("what there is of the group")
    m.join("joins with a name", subscribed_topic_names=[topic.name])
    m.beat("a broken one", subscribed_topic_regex="(")
    m.beat("a broken one with no names", subscribed_topic_regex="(", subscribed_topic_names=[])
    group.describe("all is as it was")
    m.beat("goes on")


@scenario("consumer_group_heartbeat", (1,))
def regular_expressions_match(t: Talk, v: int) -> None:
    """The whole name, by the rules of RE2."""
    topics = [t.topic(name) for name in ("alpha", "beta.1", "beta-2", "Gamma", "alphabet")]
    patterns = {
        "a whole name": t.prefix + "alpha",
        "a part of names": "alpha",
        "an unanchored end": t.prefix + "alpha.*",
        "anchors": f"^{t.prefix}alpha$",
        "alternatives": f"{t.prefix}(alpha|Gamma)",
        "no case": f"(?i){t.prefix}gamma",
        "an escaped dot": t.prefix + r"beta\.\d",
        "a class": f"{t.prefix}beta[.-][[:digit:]]",
        "a quoted text": rf"\Q{t.prefix}beta.1\E",
        "a count": f"{t.prefix}[a-z]{{5}}",
        "not greedy": f"{t.prefix}.*?a",
        "nothing": t.prefix + "nothing",
        "a named group": f"{t.prefix}(?P<x>alpha)",
    }
    groups = {step: Group(t, v, f"group {number}") for number, step in enumerate(patterns)}
    members = {step: group("m") for step, group in groups.items()}
    for group in groups.values():
        group.sees(*topics)
    for step, m in members.items():
        m.join(f"{step}: joins", subscribed_topic_regex=patterns[step], subscribed_topic_names=None)
    for step in patterns:
        if step not in ("a part of names", "nothing"):
            members[step].settle(step)
    for step in ("a part of names", "nothing"):
        members[step].beat(step)
