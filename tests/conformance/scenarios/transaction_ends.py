"""EndTxn 0-5: every state, repeats, and fencing; the old form and that of transactions V2."""

from __future__ import annotations

from tests.conformance.runner import Talk, scenario
from tests.conformance.transactor import Transactor

OLD = range(5)
OUTCOMES = {"commit": True, "abort": False}


@scenario("end_txn", range(6))
def refused(t: Talk, v: int) -> None:
    a = t.topic("a")
    tx = Transactor(t)
    for name, commit in OUTCOMES.items():
        tx.end(f"{name}: no such id", v, commit, producer_id=4, producer_epoch=0)
        tx.end(f"{name}: empty id", v, commit, transactional_id="", producer_id=4, producer_epoch=0)
    tx.start()
    for name, commit in OUTCOMES.items():
        tx.end(f"{name}: empty, an older epoch", v, commit, producer_epoch=tx.epoch - 1)
        tx.end(f"{name}: empty, a newer epoch", v, commit, producer_epoch=tx.epoch + 1)
        tx.end(f"{name}: empty, another producer", v, commit, producer_id=tx.producer_id + 100_000)
    tx.add("added", 3, (a.name, 0))
    for name, commit in OUTCOMES.items():
        tx.end(f"{name}: an older epoch", v, commit, producer_epoch=tx.epoch - 1)
        tx.end(f"{name}: a newer epoch", v, commit, producer_epoch=tx.epoch + 1)
        tx.end(f"{name}: another producer", v, commit, producer_id=tx.producer_id + 100_000)
    tx.ended("aborted", v, False)


@scenario("end_txn", OLD)
def ends(t: Talk, v: int) -> None:
    """The epoch stays: a repeat is recognized by the outcome alone."""
    a = t.topic("a")
    tx = Transactor(t).start()
    for name, commit in OUTCOMES.items():
        tx.end(f"{name}: nothing open", v, commit)
    for name, commit in OUTCOMES.items():
        tx.add(f"{name}: added", 3, (a.name, 0))
        tx.ended(f"{name}: ended", v, commit)
        tx.end(f"{name}: again", v, commit)
        tx.end(f"{name}: the other way", v, not commit)
        tx.end(f"{name}: again, a newer epoch", v, commit, producer_epoch=tx.epoch + 1)
        tx.end(f"{name}: again, another producer", v, commit, producer_id=tx.producer_id + 100_000)
        tx.describe(f"{name}: described")


@scenario("end_txn", (5,))
def ends_with_a_new_epoch(t: Talk, v: int) -> None:
    a = t.topic("a")
    tx = Transactor(t).start()
    tx.end("commit: nothing open", v, True)
    tx.ended("abort: nothing open", v, False)
    tx.describe("abort: nothing open: described")
    tx.end("commit: nothing open after an abort", v, True)
    tx.ended("abort: nothing open after an abort", v, False)
    for name, commit in OUTCOMES.items():
        before = tx.epoch
        tx.add(f"{name}: added", 4, (a.name, 0))
        tx.describe(f"{name}: ongoing")
        tx.ended(f"{name}: ended", v, commit)
        tx.describe(f"{name}: described")
        tx.end(f"{name}: a repeat", v, commit, producer_epoch=before)
        tx.end(f"{name}: a repeat the other way", v, not commit, producer_epoch=before)
        tx.end(f"{name}: two epochs back", v, commit, producer_epoch=before - 1)
        tx.end(f"{name}: a newer epoch", v, commit, producer_epoch=tx.epoch + 1)
        tx.end(f"{name}: another producer", v, commit, producer_id=tx.producer_id + 100_000)
    tx.add("added by an old one", 3, (a.name, 0))
    tx.ended("added by an old one: committed", v, True)
    tx.end("commit: nothing open after a commit", v, True)
    tx.ended("abort: nothing open after a commit", v, False)
    tx.add("then", 4, (a.name, 0))
    tx.ended("ended by an old one", 4, True)
    tx.describe("ended by an old one: described")
    tx.end("ended by an old one: again", 4, True)
    tx.end("ended by an old one: again, the new way", v, True)


@scenario("end_txn", range(6))
def fenced(t: Talk, v: int) -> None:
    """A zombie's calls, once another producer has its id."""
    a = t.topic("a")
    zombie = Transactor(t).start()
    zombie.add("added", 3, (a.name, 0))
    zombie.produce("produced", 11, a, 0)
    new = Transactor(t)
    new.init("the new one finds it open", 4)
    new.settle("CompleteAbort")
    zombie.produce("the zombie produces, old", 11, a, 1)
    zombie.produce("the zombie produces, new", 12, a, 1)
    for name, commit in OUTCOMES.items():
        zombie.end(f"zombie: {name} once aborted", v, commit)
    new.start()
    for name, commit in OUTCOMES.items():
        zombie.end(f"zombie: {name}", v, commit)
    zombie.add("zombie: add", min(v, 3), (a.name, 0))
    zombie.add("zombie: add between brokers", max(v, 4), (a.name, 0))
    zombie.add_offsets("zombie: add offsets", min(v, 4))
    zombie.commit_offsets("zombie: commit offsets", v, a.name, 0)
    zombie.produce("zombie: produce, old", 11, a, 1)
    zombie.produce("zombie: produce, new", 12, a, 1)
    zombie.init("zombie: itself", 4, producer_id=zombie.producer_id, producer_epoch=zombie.epoch)
    new.produce("the new one produces", 12, a, 0)
    zombie.produce("zombie: produce again, old", 11, a, 1)
    zombie.produce("zombie: produce again, new", 12, a, 1)
    new.ended("the new one commits", 5, True)
