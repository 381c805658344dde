"""Why a record that was expected is not read: it is in an open transaction, or behind one.

A reader of committed records stops at the last stable offset, where the first open transaction begins (KIP-98). A wait
in vain looks behind it, as far as one read and its budget go, and says which of the records would have matched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from broker.node import Node
from broker.replication.bounds import HIGH_WATERMARK, TXN_COMMITTED
from broker.replication.partition import Partition
from broker.testkit.control.budget import MOST, Budget
from broker.testkit.control.topic_reader import READ_BYTES, decode_within, whole_batches
from broker.testkit.inspection import list_transactions
from odradek.explain_rules import counted
from protocol.errors import KafkaError
from protocol.primitives import Buffer
from protocol.records.build import Record
from storage.segments.txn_index import AbortedTxn

Place = tuple[bool, int]
"""Whether a record is of the open transaction itself, or behind it; and the id of its producer."""

Matches = Callable[[Record], bool]

MOST_RECORDS = 2_000
"""The most records of a batch that are looked at."""


async def held_back(node: Node, topic: str, positions: Iterable[int], matches: Matches) -> list[str]:
    """A sentence for each open transaction that holds back records which match, in partitions read to their end."""
    found: Counter[Place] = Counter()
    for index in positions:
        partition = node.replicas.get(topic, index)
        if partition is not None:
            found += await _in(node, partition, matches)
    if not found:
        return []
    names = await _names(node)
    return [_sentence(count, *place, names) for place, count in sorted(found.items(), reverse=True)]


async def _in(node: Node, partition: Partition, matches: Matches) -> Counter[Place]:
    bounds = partition.bounds
    stable, end = bounds[TXN_COMMITTED], bounds[HIGH_WATERMARK]
    open_now = dict(partition.log.producers.open_transactions)  # by first offset
    if stable >= end or not open_now:
        return Counter()
    try:
        plan = partition.plan_read(stable, READ_BYTES, end, True, READ_BYTES)
        data = await plan.read()
        aborted = partition.aborted_transactions(plan, len(data))
    except (KafkaError, OSError):  # it was deleted, or is led elsewhere by now: the wait has failed all the same
        return Counter()
    budget = Budget(MOST)
    return await budget.run(node, partial(_count, data, aborted, open_now, matches, budget))


def _count(
    data: Buffer, aborted: Sequence[AbortedTxn], open_now: Mapping[int, int], matches: Matches, budget: Budget
) -> Counter[Place]:
    """Any thread."""
    found: Counter[Place] = Counter()
    first_of = {producer_id: first for first, producer_id in open_now.items()}
    holder = open_now[min(open_now)]
    view = memoryview(data)
    for at, header in whole_batches(view):
        if header.is_control or budget.is_spent:
            continue
        first = first_of.get(header.producer_id)
        is_inside = header.is_transactional and first is not None and header.base_offset >= first
        place = (True, header.producer_id) if is_inside else (False, holder)
        gone = [one for one in aborted if one.first_offset <= header.base_offset <= one.last_offset]
        batch = view[at : at + header.size]
        records, _ = decode_within(batch, header.base_offset, gone, 0, budget, None, MOST_RECORDS)
        found[place] += sum(matches(one.record) for one in records)
    return +found


async def _names(node: Node) -> dict[int, str]:
    """The transactional ids that coordinators know, by producer id."""
    return {one.producer_id: one.transactional_id for one in (await list_transactions(node)).found}


def _sentence(count: int, is_inside: bool, producer_id: int, names: Mapping[int, str]) -> str:
    name = names.get(producer_id, f"producer id {producer_id}")
    are = "is" if count == 1 else "are"
    where = "in" if is_inside else "behind"
    return f"{counted(count, 'such record')} {are} {where} the open transaction of {name}"
