"""What an operator is told of tiered storage: `odradek tier status` and `verify`, a part of `odradek explain topic`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from odradek.report import Finding
from protocol.remote_storage.segment import State
from protocol.remote_storage.store import RemoteStoreError

if TYPE_CHECKING:
    from uuid import UUID

    from broker.tiering.tier_manager import TierManager
    from broker.tiering.tiered_partition import TieredPartition
    from protocol.remote_storage.segment import RemoteSegment
    from protocol.remote_storage.store import RemoteStore, StoredObject

MOST_NAMED = 20
"""The most objects, or segments, that are named one by one."""
SLOW_S = 5
LOST_ADVICE = "Restore them from a copy of the store."


def tier_status(tier: TierManager | None, topic: str) -> list[Finding]:
    """How far each partition is in remote storage; of one topic, or of all."""
    if tier is None:
        return [_not_switched_on()]
    found = [*_of_store(tier)]
    if tier.metadata.problem is not None:
        return found
    if not tier.is_loaded:
        found.append(
            Finding("warning", "tier_not_known", "what is in remote storage is not known yet", "Ask again soon.")
        )
    for (name, _), one in sorted(tier.partitions.items()):
        if topic in ("", name):
            found += _of_partition(one)
    return found


async def tier_verify(tier: TierManager | None, topic: str) -> list[Finding]:
    """Whether all that should be in the store is there, and nothing else; of one topic, or of all."""
    if tier is None or not tier.is_loaded:
        return tier_status(tier, topic)
    # What is listed first may be gone by the time it is looked for, and what comes later is no stray: so in this order.
    wanted = list(_finished(tier, topic))
    work = partial(_compared, tier.store, wanted, _known(tier))
    try:
        lost, unknown, count = await tier.checks.call(work)
    except RemoteStoreError as error:
        advice = "Look whether the store can be reached from the broker."
        return [Finding("problem", "tier_not_read", f"the store cannot be listed: {error}", advice)]
    there = {one.id for one in _finished(tier, topic)}
    lost = [(one, names) for one, names in lost if one.id in there]
    found = [_lost(one, names) for one, names in lost[:MOST_NAMED]]
    if len(lost) > MOST_NAMED:
        text = f"objects of {len(lost) - MOST_NAMED} more segments are lost"
        found.append(Finding("problem", "tier_object_lost", text, LOST_ADVICE))
    if strays := [] if topic else _strays(tier, unknown):
        names = ", ".join(one.name for one in strays[:MOST_NAMED])
        size = sum(one.size for one in strays)
        text = f"{len(strays)} objects ({size} bytes) in the store belong to no segment that is known here: {names}"
        found.append(
            Finding("warning", "tier_stray_object", text, "Remove them, unless another broker uses the store.")
        )
    text = f"{len(wanted)} segments looked for, {count} objects in the store"
    return [*found, Finding("info", "tier_verified", text)]


def _finished(tier: TierManager, topic: str) -> Iterator[RemoteSegment]:
    """The segments of what is led here, in one topic or in all."""
    for (name, _), partition in tier.partitions.items():
        if partition.leads and topic in ("", name):
            yield from (one for one in partition.tier.segments if one.state is State.COPY_FINISHED)


def _known(tier: TierManager) -> frozenset[UUID]:
    return frozenset(one.id for segments in tier.metadata.segments.values() for one in segments)


def _compared(
    store: RemoteStore, wanted: list[RemoteSegment], known: frozenset[UUID]
) -> tuple[list[tuple[RemoteSegment, list[str]]], list[StoredObject], int]:
    """What is lost of the wanted segments, the objects of none that is known, and the count of all; blocking."""
    missing = {name: segment for segment in wanted for name in store.names(segment)}
    unknown, count = [], 0
    for one in store.objects():
        count += 1
        missing.pop(one.name, None)
        if one.segment_id not in known:
            unknown.append(one)
    lost: dict[UUID, tuple[RemoteSegment, list[str]]] = {}
    for name, segment in missing.items():
        lost.setdefault(segment.id, (segment, []))[1].append(name)
    return list(lost.values()), unknown, count


def _lost(segment: RemoteSegment, names: list[str]) -> Finding:
    text = f"{segment.partition.topic}-{segment.partition.index}: offsets {segment.start_offset} to "
    text += f"{segment.end_offset} cannot be read, as these objects are lost: {', '.join(names)}"
    return Finding("problem", "tier_object_lost", text, LOST_ADVICE)


def _strays(tier: TierManager, unknown: list[StoredObject]) -> list[StoredObject]:
    """Of objects that were of no known segment, those that still are of none, and that this node would know of."""
    known = _known(tier)
    owners = {(one.topic_id, one.partition): one for one in unknown}
    ours = {owner for owner, one in owners.items() if tier.metadata.covers(one)}
    return [one for one in unknown if one.segment_id not in known and (one.topic_id, one.partition) in ours]


def of_topic(tier: TierManager, topic: str) -> list[Finding]:
    """What may keep consumers of a topic from its records in remote storage."""
    found = [one for (name, _), part in sorted(tier.partitions.items()) if name == topic for one in _of_partition(part)]
    return [*_of_store(tier), *found] if found else []


def _of_store(tier: TierManager) -> Iterator[Finding]:
    if tier.metadata.problem is not None:
        advice = "Set it to what it was when the topic was made, and start the broker anew."
        yield Finding("problem", "tier_metadata_partitions", tier.metadata.problem, advice)
    if (seconds := tier.reader.failing_s) is not None:
        text = f"remote storage cannot be read since {seconds:.0f} s: {tier.reader.last_error}"
        yield Finding("problem", "tier_not_read", text, "Look whether the store can be reached from the broker.")
    elif (slow := tier.reader.longest_s) > SLOW_S:
        text = f"remote storage has not answered for {slow:.0f} s"
        yield Finding("warning", "tier_slow", text, "Look whether the store can be reached from the broker.")


def _of_partition(one: TieredPartition) -> Iterator[Finding]:
    log, segments = one.log, one.tier.segments
    name = log.name
    if one.error is not None:
        text = f"{name}: the last round of copies failed: {one.error}"
        yield Finding("warning", "tier_not_copied", text, "It is tried again; meanwhile the segments stay on the disk.")
    if log.is_offline:
        return
    if not one.leads:
        yield from _of_follower(one)
        return
    waiting = one.pending()
    size = sum(segment.size for segment, _ in waiting)
    remote = (
        f"offsets {log.log_start_offset} to {one.tier.highest_offset}" if one.tier.highest_offset >= 0 else "nothing"
    )
    text = f"{name}: {remote} in remote storage ({len(segments)} segments, {segments.size} bytes), here from offset "
    text += f"{log.local_log_start_offset}; {len(waiting)} closed segments ({size} bytes) are to be copied"
    yield Finding("info", "tier", text)


def _of_follower(one: TieredPartition) -> Iterator[Finding]:
    name = one.log.name
    if one.tier.why_not is not None:
        text = f"{name}: this replica waits for remote storage, to begin behind what is there: {one.tier.why_not}"
        advice = (
            "It is tried again; the replica is not in sync before. Look whether the store can be reached from here."
        )
        yield Finding("warning", "tier_replica_waits", text, advice)
    copied = f"copied up to offset {one.tier.highest_offset}" if one.tier.highest_offset >= 0 else "not copied yet"
    yield Finding(
        "info", "tier_follower", f"{name}: followed, here from offset {one.log.local_log_start_offset}; {copied}"
    )


def _not_switched_on() -> Finding:
    advice = (
        "Set remote.log.storage.system.enable=true and a store (docs/tiered-storage.md), and start the broker anew."
    )
    return Finding("info", "tier_off", "tiered storage is switched off", advice)
