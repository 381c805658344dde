"""InitProducerId 0-5 with a transactional id: every row of recovery, and who is fenced."""

from __future__ import annotations

from tests.conformance.runner import Talk, scenario
from tests.conformance.transactor import Transactor

VERSIONS = range(6)
WITH_EXPECTED = range(3, 6)


@scenario("init_producer_id", VERSIONS)
def transactional(t: Talk, v: int) -> None:
    tx = Transactor(t)
    tx.describe("not known")
    for timeout in (0, -1, 900_001):
        tx.init(f"timeout {timeout}", v, timeout)
    tx.describe("still not known")
    tx.init("new", v, 900_000)
    tx.describe("new: described")
    tx.init("again", v, 1)
    tx.describe("again: described")
    other = Transactor(t, "other")
    other.init("another id", v)
    other.init("empty id", v, transactional_id="")


@scenario("init_producer_id", VERSIONS)
def over_transactions(t: Talk, v: int) -> None:
    """Each state of a transaction that holds still."""
    a = t.topic("a")
    for client, old in (("old", True), ("new", False)):
        tx = Transactor(t, client)
        produce, end = (11, 4) if old else (12, 5)
        tx.init(f"{client}: first", v)
        for commit in (True, False):
            name = f"{client} {commit}"
            if old:
                tx.add(f"{name}: added", 3, (a.name, 0))
            tx.produce(f"{name}: produced", produce, a, 0)
            tx.describe(f"{name}: ongoing")
            tx.ended(f"{name}: ended", end, commit)
            tx.describe(f"{name}: complete")
            tx.init(f"{name}: after", v)
            tx.describe(f"{name}: empty")
        if old:
            tx.add(f"{client}: added again", 3, (a.name, 0))
        tx.produce(f"{client}: produced again", produce, a, 0)
        tx.init(f"{client}: one is open", v)
        tx.settle("CompleteAbort")
        tx.describe(f"{client}: aborted")
        tx.end(f"{client}: the fenced one commits", end, True)
        tx.produce(f"{client}: the fenced one produces", produce, a, 1)
        tx.init(f"{client}: after the abort", v)


@scenario("init_producer_id", WITH_EXPECTED)
def epoch_bumps(t: Talk, v: int) -> None:
    """KIP-360: a producer that names itself."""
    tx = Transactor(t)
    tx.init("unknown id, a producer", v, producer_id=1 << 40, producer_epoch=5)
    first = {"producer_id": tx.producer_id, "producer_epoch": tx.epoch}
    tx.init("itself", v, **first)
    tx.init("itself as it was: a repeat", v, **first)
    tx.init("itself now", v, producer_id=tx.producer_id, producer_epoch=tx.epoch)
    tx.init("one older than the last", v, **first)
    tx.init("an epoch ahead", v, producer_id=tx.producer_id, producer_epoch=tx.epoch + 3)
    tx.init("another producer id", v, producer_id=1 << 40, producer_epoch=tx.epoch)
    tx.init("negative epoch", v, producer_id=tx.producer_id, producer_epoch=-5)
    tx.init("an id, no epoch", v, producer_id=tx.producer_id, producer_epoch=-1)
    tx.init("an epoch, no id", v, producer_id=-1, producer_epoch=0)
    tx.init("nobody", v)
    tx.init("who was before nobody", v, producer_id=tx.producer_id, producer_epoch=tx.epoch - 1)


@scenario("init_producer_id", WITH_EXPECTED)
def epoch_bumps_over_transactions(t: Talk, v: int) -> None:
    a = t.topic("a")
    tx = Transactor(t)
    for client, produce, end in (("old", 11, 4), ("new", 12, 5)):
        tx.start()
        for commit in (True, False):
            name = f"{client} {commit}"
            if client == "old":
                tx.add(f"{name}: added", 3, (a.name, 0))
            tx.produce(f"{name}: produced", produce, a, 0)
            before = {"producer_id": tx.producer_id, "producer_epoch": tx.epoch}
            tx.ended(f"{name}: ended", end, commit)
            tx.init(f"{name}: as before the end", v, **before)
            tx.init(f"{name}: as before the end, again", v, **before)
            tx.init(f"{name}: as now", v, producer_id=tx.producer_id, producer_epoch=tx.epoch)
        if client == "old":
            tx.add(f"{client}: added again", 3, (a.name, 0))
        tx.produce(f"{client}: produced again", produce, a, 0)
        now = {"producer_id": tx.producer_id, "producer_epoch": tx.epoch}
        tx.init(f"{client}: open, an older epoch", v, **now | {"producer_epoch": tx.epoch - 1})
        tx.settle("CompleteAbort")
        tx.init(f"{client}: after it, the same", v, **now)
        tx.init(f"{client}: after it, as fenced", v, **now | {"producer_epoch": tx.epoch + 1})
        tx.describe(f"{client}: then")
