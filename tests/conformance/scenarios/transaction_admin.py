"""DescribeProducers, DescribeTransactions and ListTransactions 0-2."""

from __future__ import annotations

from typing import Any

from tests.conformance.runner import Talk, scenario
from tests.conformance.transactor import Transactor, described, producers

PATTERNS = (
    *("(?i)OPEN", "[[:alpha:]]+", "[^o].*", r"\w{4}", r"\w{4,}", "(?:open|done)", "(?P<name>open)", "o.*?n", "open$"),
    *(
        "(open",
        "[[:foo:]]+",
        "op**",
        "(?=open)",
        r"(o)\1",
        "o{2,1}",
        "[z-a]",
        "open)",
        "*",
        "(?z)",
        "o{1001}",
        "[a",
        "a|*",
    ),
)


@scenario("describe_producers")
def describes(t: Talk, v: int) -> None:
    a = t.topic("a", 2)
    producers(t, "nobody yet", a.name, 0, 1)
    for producer_id in (7001, 7002):
        t.normalise.name_producer(producer_id)
    t.fill(a, 0, t.batch(3, pid=7001, epoch=2, sequence=0))
    t.fill(a, 0, t.batch(1, pid=7002, epoch=0, sequence=5, base_timestamp=t.t0 + 9))
    t.fill(a, 0, t.batch(1))
    tx = Transactor(t).start()
    tx.produce("in a transaction", 12, a, 0)
    producers(t, "three", a.name, 0, 1)
    producers(t, "an unknown partition", a.name, 0, 9, -1)
    producers(t, "a partition twice", a.name, 0, 0)
    producers(t, "no partitions", a.name)
    producers(t, "an unknown topic", t.name("absent"), 0)
    producers(t, "an invalid topic", "a b", 0)
    producers(t, "an empty topic", "", 0)
    t.call("nothing", "describe_producers", v, {"topics": []})
    tx.ended("committed", 5, True)
    producers(t, "after the end", a.name, 0)


@scenario("describe_transactions")
def describes_transactions(t: Talk, v: int) -> None:
    a = t.topic("a", 3)
    tx, other = Transactor(t).start(1234), Transactor(t, "other").start()
    tx.produce("produced", 12, a, 0, index=2)
    tx.produce("produced to another", 12, a, 0)
    ids = [tx.id, other.id, t.prefix + "nobody", "", tx.id]
    t.call("several", "describe_transactions", v, {"transactional_ids": ids}, pick=described)
    t.call("none", "describe_transactions", v, {"transactional_ids": []})
    tx.ended("ended", 5, False)
    tx.describe("after the end")


@scenario("list_transactions", range(3))
def lists(t: Talk, v: int) -> None:
    a = t.topic("a")
    empty, open_one = Transactor(t, "empty").start(), Transactor(t, "open").start()
    done = Transactor(t, "done").start()
    open_one.produce("produced", 12, a, 0)
    done.produce("done: produced", 12, a, 0)
    done.ended("done: committed", 5, True)

    def own(answer: dict[str, Any]) -> dict[str, Any]:
        """Other runs' transactions are not looked at."""
        states = [one for one in answer["transaction_states"] if one["transactional_id"].startswith(t.prefix)]
        return answer | {"transaction_states": states}

    def ask(step: str, **filters: Any) -> None:
        t.call(step, "list_transactions", v, filters, pick=own)

    ask("all")
    ask("ongoing", state_filters=["Ongoing"])
    ask("two states", state_filters=["Empty", "CompleteCommit"])
    ask("states that are none", state_filters=["Ongoing", "ongoing", "Nothing", "Nothing", ""])
    ask("many states that are none", state_filters=["Stable", "Empty", "ConsumerGroup", "x", "", "Stable", "ongoing"])
    ask("only states that are none", state_filters=["Nothing"])
    ask("dead", state_filters=["Dead", "PrepareEpochFence"])
    ask("of producers", producer_id_filters=[empty.producer_id, done.producer_id, 1 << 40])
    ask("of a producer and a state", producer_id_filters=[empty.producer_id], state_filters=["Ongoing"])
    if v >= 1:
        ask("of any duration", duration_filter=0)
        ask("of a long duration", duration_filter=3_600_000)
        ask("of a negative duration", duration_filter=-7)
    if v >= 2:
        ask("by pattern", transactional_id_pattern=f"{t.prefix}(open|done)")
        ask("by a pattern in the middle", transactional_id_pattern="open")
        ask("by any pattern", transactional_id_pattern=f"{t.prefix}.*")
        ask("by an empty pattern", transactional_id_pattern="")
        for pattern in PATTERNS:
            ask(f"by {pattern}", transactional_id_pattern=t.prefix + pattern)
    open_one.ended("open: aborted", 5, False)
