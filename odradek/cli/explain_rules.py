"""Why nothing is read, as far as a client of any Kafka can know it. Rules are named as those of a broker of ours."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.report import Finding

Key = tuple[str, int]
MOST_NAMED = 5
UNSETTLED = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady")
"""States of groups that do not read, or not all of what they should; Kafka has changed how they are written."""


@dataclass(frozen=True)
class SeenPartition:
    """A partition; the offsets are None if no leader tells them. `holder` says who keeps `stable` below `end`."""

    topic: str
    number: int
    leader: int | None
    replicas: Sequence[int]
    isr: Sequence[int]
    start: int | None = None
    stable: int | None = None
    end: int | None = None
    holder: str = ""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True)
class SeenGroup:
    """A group; `state` is empty if there is none of that name. `members` have what is assigned to each, by its id.

    `partitions` are those of the topics that it has committed offsets in, or that a member reads, as far as they exist.
    """

    name: str
    kind: str
    state: str
    members: Mapping[str, Collection[Key]]
    committed: Mapping[Key, int]
    partitions: Mapping[Key, SeenPartition]
    groups: Collection[str] = ()

    @property
    def owned(self) -> set[Key]:
        return {key for keys in self.members.values() for key in keys}


@dataclass(frozen=True)
class SeenTopic:
    """A topic, without partitions if there is none; `least_in_sync` is its min.insync.replicas, None if not told."""

    name: str
    partitions: Sequence[SeenPartition]
    least_in_sync: int | None = None
    existing: Collection[str] = ()


@dataclass(frozen=True)
class SeenTransaction:
    """A transactional id; `state` is empty if there is none. `age_s` is of an open transaction."""

    name: str
    state: str
    age_s: float = 0
    timeout_s: float = 0
    partitions: Collection[str] = ()
    existing: Collection[str] = field(default=())


def of_group(group: SeenGroup) -> Iterator[Finding]:
    """Find out about a group."""
    if not group.state:
        yield _problem(
            "group_does_not_exist",
            f"there is no group {group.name}: no consumer has joined with this group.id, and none has committed",
            f"Look at the consumer's group.id and bootstrap servers.{_near(group.name, group.groups)}",
        )
        return
    if group.state == "Empty":
        yield _problem(
            "group_is_empty",
            f"group {group.name} is Empty: it has no members",
            "Start a consumer, and let it poll.",
        )
    if group.state.replace("_", "").lower() in {state.lower() for state in UNSETTLED}:
        yield _problem(
            "is_rebalancing",
            f"group {group.name} is {group.state}: partitions change hands, and are not read meanwhile",
            "If it lasts, a member does not poll: it is removed after its session or rebalance timeout.",
        )
    yield from _offline(group.partitions.values(), "be read")
    if group.state == "Stable" and group.kind != "streams":
        yield from _assigned(group)
    yield from _gone(group)
    if group.kind != "share":
        yield from _committed(group)
    yield from _held(group.partitions.values())


def _assigned(group: SeenGroup) -> Iterator[Finding]:
    """Whether each member has partitions, and each partition of their topics a member."""
    idle = sorted(member for member, keys in group.members.items() if not keys)
    if idle:
        yield _warning(
            "members_without_partitions",
            f"{_listed(idle)} of group {group.name} {'has' if len(idle) == 1 else 'have'} no partitions",
            "A topic with fewer partitions than the group has members leaves some without; see also what they "
            "subscribe to.",
        )
    topics = {topic for topic, _ in group.owned}
    lost = [
        partition.name for key, partition in group.partitions.items() if key[0] in topics and key not in group.owned
    ]
    if lost and group.kind != "share":
        yield _problem(
            "partitions_without_owner",
            f"no member of group {group.name} owns {_listed(lost)}, though others of the topic are read",
            "Partitions that were added later are assigned at the next rebalance. Otherwise look at the assignor.",
        )


def _gone(group: SeenGroup) -> Iterator[Finding]:
    gone = sorted({topic for topic, _ in {*group.committed, *group.owned}} - {topic for topic, _ in group.partitions})
    if gone:
        yield _warning(
            "topics_do_not_exist",
            f"group {group.name} has offsets or members in {_listed(gone)}, which does not exist, or may not be "
            "described",
            "Look at the topics that the consumer subscribes to.",
        )


def _committed(group: SeenGroup) -> Iterator[Finding]:
    """Whether what is committed is in the log, and what is left to read."""
    fresh, behind, done, missing = [], [], [], 0
    for key, partition in group.partitions.items():
        offset = group.committed.get(key)
        if partition.start is None or partition.end is None:
            continue
        if offset is None:
            fresh += [partition.name] if key in group.owned and partition.end > partition.start else []
        elif not partition.start <= offset <= partition.end:
            why = "records before that were deleted" if offset < partition.start else "there are no such records yet"
            yield _problem(
                "committed_out_of_range",
                f"the committed offset {offset} of {partition.name} is out of range: the log has {partition.start} to "
                f"{partition.end} ({why})",
                "The consumer goes where auto.offset.reset says; with none it fails. To go elsewhere: "
                f"odradek groups reset-offsets {group.name} --to start",
            )
        elif offset < partition.end:
            behind.append(partition.name)
            missing += partition.end - offset
        else:
            done.append(partition.name)
    if fresh:
        yield _warning(
            "has_never_committed",
            f"group {group.name} has no committed offset in {_listed(fresh)}: a consumer starts where "
            "auto.offset.reset says, by default at the end",
            "Set auto.offset.reset=earliest to read what was written before.",
        )
    if behind:
        yield _warning(
            "is_behind",
            f"group {group.name} has not committed {_counted(missing, 'record')} of {_listed(behind)}: they were not "
            "read yet, or the application works on them, or does not commit",
            "Look whether the consumer polls, how long it takes for a record, and whether it commits "
            "(enable.auto.commit).",
        )
    elif done and len(done) == len(group.partitions):
        yield _info(
            "nothing_new", f"group {group.name} has committed the end of {_listed(done)}: there is nothing new to read"
        )


def of_topic(topic: SeenTopic) -> Iterator[Finding]:
    """Find out about a topic."""
    if not topic.partitions:
        yield _problem(
            "topic_does_not_exist",
            f"topic {topic.name} does not exist, or may not be described",
            "A producer creates it with its first record, where auto.create.topics.enable is on."
            + _near(topic.name, topic.existing),
        )
        return
    yield from _offline(topic.partitions, "be read or written")
    least = topic.least_in_sync or 0
    few = [
        f"{partition.name} ({len(partition.isr)})"
        for partition in topic.partitions
        if partition.leader is not None and len(partition.isr) < least
    ]
    if few:
        yield _problem(
            "not_enough_replicas",
            f"{_listed(few)}: fewer replicas are in sync than min.insync.replicas, {least}: producers with acks=all "
            "are answered NOT_ENOUGH_REPLICAS",
            "See which brokers are not running, or behind: odradek cluster status",
        )
    late = [
        partition.name
        for partition in topic.partitions
        if partition.leader is not None and len(partition.isr) < len(partition.replicas)
    ]
    if late and not few:
        yield _warning(
            "is_under_replicated",
            f"not all replicas of {_listed(late)} are in sync",
            "See which brokers are not running, or behind: odradek cluster status",
        )
    if all(partition.end == 0 for partition in topic.partitions):
        yield _problem(
            "has_no_records",
            f"topic {topic.name} has no records: nothing was ever written to its "
            f"{_counted(len(topic.partitions), 'partition')}",
            "Look at what the producer was answered.",
        )
    cut = [f"{partition.name} starts at {partition.start}" for partition in topic.partitions if partition.start]
    if cut:
        yield _warning(
            "records_were_deleted",
            f"records were deleted, by retention or on request: {_listed(cut)}",
            "A consumer that wants earlier offsets goes where auto.offset.reset says.",
        )
    yield from _held(topic.partitions)
    filled = [
        f"{partition.name}: {partition.start} to {partition.end}"
        for partition in topic.partitions
        if (partition.end or 0) > (partition.start or 0)
    ]
    if filled:
        yield _info("has_records", f"topic {topic.name} has records ({_listed(filled)})")


def of_transaction(transaction: SeenTransaction) -> Iterator[Finding]:
    """Find out about a transactional id."""
    if not transaction.state:
        yield _problem(
            "does_not_exist",
            f"there is no transactional id {transaction.name}: no producer has called init_transactions",
            f"Look at the producer's transactional.id.{_near(transaction.name, transaction.existing)}",
        )
    elif transaction.state in ("Ongoing", "PrepareCommit", "PrepareAbort"):
        where = f" in {_listed(sorted(transaction.partitions))}" if transaction.partitions else ""
        yield _warning(
            "is_open",
            f"the transaction of {transaction.name} is {transaction.state}{where}, open for {transaction.age_s:.0f} s; "
            "readers of committed records get nothing behind it until it ends, by itself after "
            f"{transaction.timeout_s:.0f} s",
            f"Commit or abort it in the producer, or end it with odradek transactions abort {transaction.name}",
        )
    else:
        yield _info(
            "is_not_open", f"transactional id {transaction.name} has no open transaction: it is {transaction.state}"
        )


def _offline(partitions: Iterable[SeenPartition], what: str) -> Iterator[Finding]:
    offline = [partition.name for partition in partitions if partition.leader is None]
    if offline:
        yield _problem(
            "partition_is_offline",
            f"{_listed(offline)} cannot {what}: no leader is online",
            "Start the brokers that have its replicas; their logs say what happened.",
        )


def _held(partitions: Iterable[SeenPartition]) -> Iterator[Finding]:
    for partition in partitions:
        if partition.stable is not None and partition.end is not None and partition.stable < partition.end:
            yield _warning(
                "held_by_transaction",
                f"the last stable offset of {partition.name} is held at {partition.stable} by "
                f"{partition.holder or 'an open transaction'}; readers of committed records do not get the "
                f"{_counted(partition.end - partition.stable, 'record')} behind it",
                "Commit or abort it in the producer, or end it with odradek transactions abort.",
            )


def _problem(rule: str, text: str, advice: str) -> Finding:
    return Finding("problem", rule, text, advice)


def _warning(rule: str, text: str, advice: str) -> Finding:
    return Finding("warning", rule, text, advice)


def _info(rule: str, text: str) -> Finding:
    return Finding("info", rule, text, "")


def _near(name: str, names: Collection[str]) -> str:
    found = difflib.get_close_matches(name, names, 1)
    return f" Did you mean {found[0]}?" if found else ""


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
