"""TxnOffsetCommit 0-5: offsets that wait for the end of a transaction."""

from __future__ import annotations

from tests.conformance.group_members import Party
from tests.conformance.runner import Talk, scenario
from tests.conformance.transactor import Transactor

VERSIONS = range(6)
OUTCOMES = {"commit": True, "abort": False}


def begun(tx: Transactor, step: str, v: int) -> None:
    """Before version 5 the group's partition is added by the client."""
    if v < 5:
        tx.add_offsets(f"{step}: added", 4)


@scenario("txn_offset_commit", VERSIONS)
def commits(t: Talk, v: int) -> None:
    a = t.topic("a", 3)
    tx = Transactor(t).start()
    for name, commit in OUTCOMES.items():
        begun(tx, name, v)
        tx.commit_offsets(f"{name}: two", v, a.name, 0, 1)
        tx.committed(f"{name}: stable", a.name, 0, 1, 2)
        tx.committed(f"{name}: any", a.name, 0, 1, 2, stable=False)
        tx.commit_offsets(f"{name}: again", v, a.name, 1)
        tx.ended(f"{name}: ended", 5 if v == 5 else 4, commit)
        tx.committed(f"{name}: after", a.name, 0, 1, 2)
    tx.t.main.call("delete_groups", 2, {"groups_names": [t.prefix + "group"]})


@scenario("txn_offset_commit", VERSIONS)
def refused(t: Talk, v: int) -> None:
    a = t.topic("a", 3)
    absent = t.name("absent")
    tx = Transactor(t)
    tx.commit_offsets("no such id", v, a.name, 0, producer_id=1 << 40, producer_epoch=0)
    tx.start()
    if v < 5:
        tx.commit_offsets("not added", v, a.name, 0)
    tx.commit_offsets("an older epoch", v, a.name, 0, producer_epoch=tx.epoch - 1)
    tx.commit_offsets("a newer epoch", v, a.name, 0, producer_epoch=tx.epoch + 1)
    tx.commit_offsets("another producer", v, a.name, 0, producer_id=tx.producer_id + 100_000)
    begun(tx, "begun", v)
    tx.commit_offsets("added, a newer epoch", v, a.name, 0, producer_epoch=tx.epoch + 1)
    tx.commit_offsets("unknown topic", v, absent, 0)
    tx.commit_offsets("unknown partition among known", v, a.name, 0, 9)
    tx.commit_offsets("nothing", v, a.name)
    tx.commit_offsets("no topics", v, a.name, topics=[])
    tx.commit_offsets("empty id", v, a.name, 0, transactional_id="")
    tx.commit_offsets("empty group", v, a.name, 0, group_id="")
    long = [
        {
            "name": a.name,
            "partitions": [
                {"partition_index": 0, "committed_offset": 1, "committed_metadata": "x" * 4097},
                {"partition_index": 1, "committed_offset": 1, "committed_metadata": None},
            ],
        }
    ]
    tx.commit_offsets("a note too long", v, a.name, topics=long)
    t.main.call("end_txn", 5 if v == 5 else 4, tx.who | {"committed": False})


@scenario("txn_offset_commit", range(3, 6))
def of_members(t: Talk, v: int) -> None:
    """KIP-447: a member of the group is known by its id and generation."""
    a = t.topic("a")
    party = Party(t, 5)
    member = party("m")
    member.join("joined")
    tx = Transactor(t).start()
    begun(tx, "begun", v)
    tx.commit_offsets("a stranger", v, a.name, 0, member_id="stranger", generation_id=1)
    tx.commit_offsets("an older generation", v, a.name, 0, member_id=member.member_id, generation_id=0)
    tx.commit_offsets("a newer generation", v, a.name, 0, member_id=member.member_id, generation_id=7)
    tx.commit_offsets("a generation alone", v, a.name, 0, generation_id=1)
    tx.commit_offsets(
        "an unknown instance", v, a.name, 0, member_id=member.member_id, generation_id=1, group_instance_id="i"
    )
    tx.commit_offsets("nobody", v, a.name, 0)
    tx.commit_offsets("the member", v, a.name, 0, member_id=member.member_id, generation_id=1)
    tx.ended("committed", 5 if v == 5 else 4, True)
    tx.committed("after", a.name, 0)
    tx.commit_offsets("after: a stranger of no group", v, a.name, 0, group="nobody", member_id="x", generation_id=1)


@scenario("txn_offset_commit", VERSIONS)
def while_it_ends(t: Talk, v: int) -> None:
    """A newer coordinator's marker keeps the transaction from its own."""
    a = t.topic("a")
    tx = Transactor(t).start()
    tx.add("added", 3, (a.name, 0))
    tx.produce("produced", 11, a, 0)
    topics = [{"name": a.name, "partition_indexes": [0]}]
    marker = {"producer_id": tx.producer_id, "producer_epoch": tx.epoch, "transaction_result": False}
    t.call(
        "somebody's marker", "write_txn_markers", 1, {"markers": [marker | {"coordinator_epoch": 9, "topics": topics}]}
    )
    tx.end("ends", 3, True)
    tx.commit_offsets("too early", v, a.name, 0)
    tx.describe("prepared")
