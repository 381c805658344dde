"""Why nothing is read: what a client of any Kafka can find out, and what a broker of ours finds too, which knows more.

A rule is a small pure function: it gets values of one moment, and yields what it finds there. A finding has the name of
its rule. `odradek explain` asks these rules, and a broker some of them besides its own (`broker.testkit.explain`).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from odradek.report import Finding

T = TypeVar("T")
Key = tuple[str, int]
Findings = Iterator[Finding]

MOST_NAMED = 5
"""How many partitions or members a sentence names."""

SEVERITIES = ("problem", "warning", "info")
UNSETTLED = ("preparingrebalance", "completingrebalance", "assigning", "reconciling", "notready")
"""States of groups that do not read, or not all of what they should; Kafka has changed how they are written."""


@dataclass(frozen=True)
class SeenPartition:
    """A partition; the offsets are None if no leader tells them.

    `holder` says who keeps `stable` below `end`, and `holder_id` is its transactional id, if that is known.
    """

    topic: str
    number: int
    leader: int | None
    replicas: Sequence[int] = ()
    isr: Sequence[int] = ()
    start: int | None = None
    stable: int | None = None
    end: int | None = None
    holder: str = ""
    holder_id: str = ""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True)
class SeenGroup:
    """A group; `state` is empty if there is none of that name. `members` have what is assigned to each, by its id.

    `partitions` are those of the topics that it has committed offsets in, or that a member reads, as far as they exist.
    `wanted` are those that its members subscribe to, and `unused_ids` how many member ids are not used yet, as far as
    that is known. `in_test`: who reads this may have the kit's `broker` at hand.
    """

    name: str
    kind: str
    state: str
    members: Mapping[str, Collection[Key]]
    committed: Mapping[Key, int]
    partitions: Mapping[Key, SeenPartition]
    groups: Collection[str] = ()
    wanted: Collection[Key] = ()
    unused_ids: int = 0
    in_test: bool = False

    @property
    def owned(self) -> set[Key]:
        return {key for keys in self.members.values() for key in keys}

    @property
    def reset(self) -> str:
        """How to have it read again."""
        in_test = f', or in a test broker.group("{self.name}").reset_offsets("earliest").' if self.in_test else ""
        return f"odradek groups reset-offsets {self.name} --to start{in_test}"

    def positions(self) -> Iterator[tuple[Key, SeenPartition, int, int, int | None]]:
        """The start, the end and the committed offset of each partition, where they are told."""
        for key, one in self.partitions.items():
            if self.kind != "share" and one.start is not None and one.end is not None:
                yield key, one, one.start, one.end, self.committed.get(key)


@dataclass(frozen=True)
class SeenTopic:
    """A topic, without partitions if there is none. Empty or None are its settings as far as they are not known."""

    name: str
    partitions: Sequence[SeenPartition]
    least_in_sync: int | None = None
    existing: Collection[str] = ()
    retention: str = ""
    in_test: bool = False


@dataclass(frozen=True)
class SeenTransaction:
    """A transactional id; `state` is empty if there is none. `age_s` is of an open transaction."""

    name: str
    state: str
    age_s: float = 0
    timeout_s: float = 0
    partitions: Collection[str] = ()
    existing: Collection[str] = ()

    @property
    def is_open(self) -> bool:
        return self.state in ("Ongoing", "PrepareCommit", "PrepareAbort")


problem, warning, info = (partial(Finding, severity, "") for severity in SEVERITIES)


def ask(rules: Iterable[Callable[[T], Findings]], situation: T) -> Findings:
    """Yield what the rules find, each under the name of its rule."""
    return (replace(finding, rule=rule.__name__) for rule in rules for finding in rule(situation))


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Sort the findings, the worst first."""
    return sorted(findings, key=lambda one: SEVERITIES.index(one.severity))


def listed(names: Iterable[str]) -> str:
    """The names, or the first of them and how many more there are."""
    found = list(names)
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return ", ".join(found[:MOST_NAMED]) + more


def counted(number: int, what: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def how_to_end(transactional_id: str, *, in_test: bool) -> str:
    """What to do about an open transaction; the id is empty if nobody knows it."""
    end = f', or in a test broker.transaction("{transactional_id}").abort().' if in_test and transactional_id else ""
    return (
        f"Commit or abort it in the producer, or end it with odradek transactions abort {transactional_id}".rstrip()
        + end
    )


def _near(name: str, names: Collection[str]) -> str:
    found = difflib.get_close_matches(name, names, 1)
    return f" Did you mean {found[0]}?" if found else ""


def group_does_not_exist(group: SeenGroup) -> Findings:
    if not group.state:
        yield problem(
            f"there is no group {group.name}: no consumer has joined with this group.id, and none has committed",
            f"Look at the consumer's group.id and bootstrap servers.{_near(group.name, group.groups)} A consumer that "
            "calls assign() instead of subscribe() makes a group only by its commits.",
        )


def group_is_empty(group: SeenGroup) -> Findings:
    if group.state == "Empty":
        had = f"; {counted(len(group.committed), 'partition')} with committed offsets" if group.committed else ""
        if group.unused_ids:
            had += f"; {counted(group.unused_ids, 'member id')} given out with MEMBER_ID_REQUIRED and not used yet"
        yield problem(
            f"group {group.name} is Empty: it has no members{had}",
            "Start a consumer, and let it poll: members leave when they are closed, when their session ends, and when "
            "they do not poll for max.poll.interval.ms.",
        )


def is_rebalancing(group: SeenGroup) -> Findings:
    if group.state.replace("_", "").lower() in UNSETTLED:
        yield problem(
            f"group {group.name} is {group.state}: partitions change hands, and are not read meanwhile",
            "If it lasts, a member does not poll: it is removed after its session or rebalance timeout.",
        )


def partition_is_offline(seen: SeenGroup | SeenTopic) -> Findings:
    partitions = seen.partitions.values() if isinstance(seen, SeenGroup) else seen.partitions
    offline = [partition.name for partition in partitions if partition.leader is None]
    if offline:
        lost = "cannot be read" if isinstance(seen, SeenGroup) else "can be neither read nor written"
        yield problem(
            f"{listed(offline)} {lost}: no leader is online",
            "Start the brokers that have its replicas; their logs say what happened.",
        )


def members_without_partitions(group: SeenGroup) -> Findings:
    idle = sorted(member for member, keys in group.members.items() if not keys)
    if idle and group.state == "Stable" and group.kind != "streams":
        yield warning(
            f"{listed(idle)} of group {group.name} {'has' if len(idle) == 1 else 'have'} no partitions",
            "A topic with fewer partitions than the group has members leaves some without; see also what they "
            "subscribe to.",
        )


def partitions_without_owner(group: SeenGroup) -> Findings:
    topics = {topic for topic, _ in group.owned}
    lost = [one.name for key, one in group.partitions.items() if key[0] in topics and key not in group.owned]
    if lost and group.state == "Stable" and group.kind not in ("share", "streams"):
        yield problem(
            f"no member of group {group.name} owns {listed(lost)}, though others of the topic are read",
            "Partitions that were added later are assigned at the next rebalance. Otherwise look at the assignor.",
        )


def topics_do_not_exist(group: SeenGroup) -> Findings:
    gone = sorted({topic for topic, _ in {*group.committed, *group.owned}} - {topic for topic, _ in group.partitions})
    if gone:
        yield warning(
            f"group {group.name} has offsets or members in {listed(gone)}, which does not exist, or may not be "
            "described",
            "Look at the topics that the consumer subscribes to.",
        )


def committed_out_of_range(group: SeenGroup) -> Findings:
    for _, one, start, end, offset in group.positions():
        if offset is not None and not start <= offset <= end:
            why = "records before that were deleted" if offset < start else "there are no such records yet"
            yield problem(
                f"the committed offset {offset} of {one.name} is out of range: the log has {start} to {end} ({why})",
                f"The consumer goes where auto.offset.reset says; with none it fails. To go elsewhere: {group.reset}",
            )


def has_never_committed(group: SeenGroup) -> Findings:
    reads = {*group.owned, *group.wanted}
    fresh = [
        one.name
        for key, one, start, end, offset in group.positions()
        if offset is None and key in reads and end > start
    ]
    if fresh:
        yield warning(
            f"group {group.name} has no committed offset in {listed(fresh)}: a consumer starts where "
            "auto.offset.reset says, by default at the end",
            "Set auto.offset.reset=earliest to read what was written before.",
        )


def is_behind(group: SeenGroup) -> Findings:
    behind = {
        one.name: end - offset
        for _, one, start, end, offset in group.positions()
        if offset is not None and start <= offset < end
    }
    if behind:
        yield warning(
            f"group {group.name} has not committed {counted(sum(behind.values()), 'record')} of {listed(behind)}: they "
            "were not read yet, or the application works on them, or does not commit",
            "Look whether the consumer polls, how long it takes for a record, and whether it commits "
            "(enable.auto.commit).",
        )


def nothing_new(group: SeenGroup) -> Findings:
    done = [one.name for _, one, _, end, offset in group.positions() if offset == end]
    if done and len(done) == len(group.partitions):
        yield info(
            f"group {group.name} has committed the end of {listed(done)}: there is nothing new to read",
            f"To read again: stop the consumers, then {group.reset}",
        )


def held_by_transaction(seen: SeenGroup | SeenTopic) -> Findings:
    for partition in seen.partitions.values() if isinstance(seen, SeenGroup) else seen.partitions:
        if partition.stable is not None and partition.end is not None and partition.stable < partition.end:
            yield warning(
                f"the last stable offset of {partition.name} is held at {partition.stable} by "
                f"{partition.holder or 'an open transaction'}; readers of committed records do not get the "
                f"{counted(partition.end - partition.stable, 'record')} behind it",
                how_to_end(partition.holder_id, in_test=seen.in_test),
            )


COMMIT_RULES = (committed_out_of_range, has_never_committed, is_behind, nothing_new)
GROUP_RULES = (
    group_does_not_exist,
    group_is_empty,
    is_rebalancing,
    partition_is_offline,
    members_without_partitions,
    partitions_without_owner,
    topics_do_not_exist,
    *COMMIT_RULES,
    held_by_transaction,
)


def topic_does_not_exist(topic: SeenTopic) -> Findings:
    if not topic.partitions:
        yield problem(
            f"topic {topic.name} does not exist{'' if topic.in_test else ', or may not be described'}",
            "A producer creates it with its first record, where auto.create.topics.enable is on."
            + _near(topic.name, topic.existing),
        )


def not_enough_replicas(topic: SeenTopic) -> Findings:
    few = _short_of_replicas(topic, topic.least_in_sync or 0)
    if few:
        yield problem(
            f"{listed(few)}: fewer replicas are in sync than min.insync.replicas, {topic.least_in_sync}: producers "
            "with acks=all are answered NOT_ENOUGH_REPLICAS",
            "See which brokers are not running, or behind: odradek cluster status",
        )


def _short_of_replicas(topic: SeenTopic, least: int) -> list[str]:
    led = (one for one in topic.partitions if one.leader is not None)
    return [f"{one.name} ({len(one.isr)})" for one in led if len(one.isr) < least]


def is_under_replicated(topic: SeenTopic) -> Findings:
    late = [one.name for one in topic.partitions if one.leader is not None and len(one.isr) < len(one.replicas)]
    if late and not _short_of_replicas(topic, topic.least_in_sync or 0):
        yield warning(
            f"not all replicas of {listed(late)} are in sync",
            "See which brokers are not running, or behind: odradek cluster status",
        )


def has_no_records(topic: SeenTopic) -> Findings:
    journal = ': broker.journal(api="Produce")' if topic.in_test else ""
    if topic.partitions and all(partition.end == 0 for partition in topic.partitions):
        yield problem(
            f"topic {topic.name} has no records: nothing was ever written to its "
            f"{counted(len(topic.partitions), 'partition')}",
            f"Look at what the producer was answered{journal}.",
        )


def records_were_deleted(topic: SeenTopic) -> Findings:
    cut = [
        f"{one.name} starts at {one.start}{' and has none left' if one.start == one.end else ''}"
        for one in topic.partitions
        if one.start
    ]
    if cut:
        yield warning(
            f"records were deleted, by retention{topic.retention} or on request: {listed(cut)}",
            "A consumer that wants earlier offsets goes where auto.offset.reset says. Records with old timestamps are "
            "deleted by retention too.",
        )


def has_records(topic: SeenTopic) -> Findings:
    filled = [f"{one.name}: {one.start} to {one.end}" for one in topic.partitions if (one.end or 0) > (one.start or 0)]
    if filled:
        yield info(f"topic {topic.name} has records ({listed(filled)})")


TOPIC_RULES = (
    topic_does_not_exist,
    partition_is_offline,
    not_enough_replicas,
    is_under_replicated,
    has_no_records,
    records_were_deleted,
    held_by_transaction,
    has_records,
)


def does_not_exist(transaction: SeenTransaction) -> Findings:
    if not transaction.state:
        yield problem(
            f"there is no transactional id {transaction.name}: no producer has called init_transactions",
            f"Look at the producer's transactional.id.{_near(transaction.name, transaction.existing)}",
        )


def is_open(transaction: SeenTransaction) -> Findings:
    if transaction.is_open:
        where = f" in {listed(sorted(transaction.partitions))}" if transaction.partitions else ""
        yield warning(
            f"the transaction of {transaction.name} is {transaction.state}{where}, open for {transaction.age_s:.0f} s; "
            "readers of committed records get nothing behind it until it ends, by itself after "
            f"{transaction.timeout_s:.0f} s",
            how_to_end(transaction.name, in_test=False),
        )


def is_not_open(transaction: SeenTransaction) -> Findings:
    if transaction.state and not transaction.is_open:
        yield info(f"transactional id {transaction.name} has no open transaction: it is {transaction.state}")


TRANSACTION_RULES = (does_not_exist, is_open, is_not_open)
