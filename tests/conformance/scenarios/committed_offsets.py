"""FindCoordinator, OffsetCommit, OffsetFetch and OffsetDelete at every version; and what DescribeGroups, ListGroups and
DeleteGroups tell of simple consumers."""

from __future__ import annotations

from typing import Any

from tests.conformance.runner import Talk, scenario
from tests.conformance.wire import Closed, Silent

COMMIT = range(2, 10)
FETCH = range(1, 10)
GROUP_KEY, SHARE_KEY, NO_KEY_TYPE = 0, 2, 5


def partition(index: int, offset: int = 5, **fields: Any) -> dict[str, Any]:
    more = {"committed_metadata": "note", "committed_leader_epoch": -1}
    return {"partition_index": index, "committed_offset": offset} | more | fields


def topic(name: str, *partitions: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "partitions": list(partitions)}


class Committer:
    """Commits and reads of one group, once its coordinator is there."""

    def __init__(self, t: Talk, group: str = "group") -> None:
        self.t = t
        self.group = t.prefix + group
        t.until("the coordinator is there", self._coordinator)

    def _coordinator(self) -> bool:
        found = self.t.main.call("find_coordinator", 1, {"key": self.group, "key_type": GROUP_KEY})
        return not isinstance(found, Closed | Silent) and found["error_code"][0] == "0"

    def commit(self, step: str, v: int, *topics: dict[str, Any], **fields: Any) -> None:
        who = {"group_id": self.group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": list(topics)}
        self.t.call(step, "offset_commit", v, who | fields)

    def committed(self, step: str, *names: str) -> None:
        wanted = [{"name": name, "partition_indexes": [0, 1, 2]} for name in names]
        body = {"groups": [{"group_id": self.group, "topics": wanted}]}
        self.t.call(step, "offset_fetch", 8, body)

    def exists(self, step: str) -> None:
        self.t.call(step, "describe_groups", 5, {"groups": [self.group]})

    def delete(self) -> None:
        self.t.main.call("delete_groups", 2, {"groups_names": [self.group]})


def find(t: Talk, step: str, v: int, key_type: int, *keys: str) -> None:
    if v >= 4:
        t.call(
            step, "find_coordinator", v, {"key_type": key_type, "coordinator_keys": [t.prefix + key for key in keys]}
        )
    else:
        t.call(step, "find_coordinator", v, {"key_type": key_type, "key": t.prefix + keys[0]})


@scenario("find_coordinator", range(7))
def finds(t: Talk, v: int) -> None:
    Committer(t)
    find(t, "group", v, GROUP_KEY, "a", "b", "a")
    if v >= 1:
        find(t, "unknown key type", v, NO_KEY_TYPE, "a", "b")
        find(t, "negative key type", v, -1, "a")
        find(t, "share keys that are none", v, SHARE_KEY, "a", "a:b", "a:b:0", "a:AAAAAAAAAAAAAAAAAAAAAQ:x", "a:b:c:d")
    if v >= 4:
        find(t, "nothing", v, GROUP_KEY)


@scenario("offset_commit", COMMIT)
def commits(t: Talk, v: int) -> None:
    group = Committer(t)
    name, absent = t.topic("t", 3).name, t.name("absent")
    group.commit("two", v, topic(name, partition(0), partition(1, 7, committed_leader_epoch=3)))
    group.commit("again", v, topic(name, partition(0, 4)))
    group.commit("odd offsets", v, topic(name, partition(1, -1), partition(2, -2)))
    group.commit("null note", v, topic(name, partition(0, committed_metadata=None)))
    group.commit("unknown partitions", v, topic(name, partition(0), partition(3), partition(1, 8), partition(-1)))
    group.commit("unknown topic", v, topic(absent, partition(0)))
    group.commit("unknown topic among known", v, topic(name, partition(2)), topic(absent, partition(0)))
    group.commit("topic twice", v, topic(name, partition(0)), topic(name, partition(1)))
    group.commit("topic twice, one unknown", v, topic(name, partition(0)), topic(name, partition(1), partition(9)))
    group.commit("partition twice", v, topic(name, partition(0, 1), partition(0, 2)))
    group.commit("nothing", v)
    group.commit("no partitions", v, topic(name))
    group.committed("committed", name, absent)
    group.delete()


@scenario("offset_commit", COMMIT)
def notes(t: Talk, v: int) -> None:
    group = Committer(t)
    name = t.topic("t", 3).name
    for step, note in {
        "longest": "x" * 4096,
        "too long": "x" * 4097,
        "longest of two bytes a character": "é" * 4096,
        "longest of two units a character": "😀" * 2048,
        "too long of two units a character": "😀" * 2048 + "x",
    }.items():
        group.commit(step, v, topic(name, partition(0, committed_metadata=note), partition(1)))
    group.delete()


@scenario("offset_commit", COMMIT)
def strangers(t: Talk, v: int) -> None:
    group = Committer(t)
    name = t.topic("t", 3).name
    somebody = {"generation_id_or_member_epoch": 3, "member_id": "somebody"}
    group.commit("generation, no group", v, topic(name, partition(0), partition(9)), **somebody)
    group.exists("no group yet")
    group.commit("only unknown partitions", v, topic(name, partition(9)))
    group.exists("still no group")
    group.commit("simple consumer", v, topic(name, partition(0)))
    group.exists("a group")
    group.commit("generation, empty group", v, topic(name, partition(0)), **somebody)
    group.commit("member, no generation", v, topic(name, partition(0)), member_id="somebody")
    group.commit("other negative generation", v, topic(name, partition(0)), generation_id_or_member_epoch=-2)
    if v >= 7:
        group.commit("instance, no generation", v, topic(name, partition(0)), group_instance_id="i")
        group.commit("instance", v, topic(name, partition(0)), group_instance_id="i", **somebody)
    if v <= 4:
        for retention in (-5, 0, 1, 2**62):
            group.commit(f"retention {retention}", v, topic(name, partition(0)), retention_time=retention)
    group.delete()


def fetch(t: Talk, step: str, v: int, group: str, topics: Any, **fields: Any) -> None:
    one = {"group_id": t.prefix + group, "topics": topics}
    t.call(step, "offset_fetch", v, ({"groups": [one]} if v >= 8 else one) | fields)


@scenario("offset_fetch", FETCH)
def fetches(t: Talk, v: int) -> None:
    group = Committer(t)
    name, absent = t.topic("t", 3).name, t.name("absent")
    group.commit("commit", 9, topic(name, partition(0), partition(1, 7, committed_leader_epoch=3)))
    asked = [{"name": name, "partition_indexes": [1, 0, 2, 7, -1, 0]}, {"name": absent, "partition_indexes": [0]}]
    fetch(t, "some", v, "group", asked)
    fetch(t, "topic twice", v, "group", [asked[0], asked[0]])
    fetch(t, "no topics", v, "group", [])
    fetch(t, "no partitions", v, "group", [{"name": name, "partition_indexes": []}])
    fetch(t, "no group", v, "nobody", asked)
    if v >= 2:
        fetch(t, "all", v, "group", None)
        fetch(t, "all of no group", v, "nobody", None)
    if v >= 7:
        fetch(t, "stable", v, "group", asked, require_stable=True)
    if v >= 8:
        named = [
            {"group_id": t.prefix + one, "topics": topics} for one in ("group", "nobody") for topics in (None, asked)
        ]
        t.call("several groups", "offset_fetch", v, {"groups": named})
        t.call("no groups", "offset_fetch", v, {"groups": []})
    if v >= 9:
        member = {"member_id": "somebody", "member_epoch": 4}
        body = {"groups": [{"group_id": group.group, "topics": asked} | member]}
        t.call("member of a classic group", "offset_fetch", v, body)
    group.delete()


@scenario("offset_delete")
def deletes(t: Talk, v: int) -> None:
    group = Committer(t)
    name, absent = t.topic("t", 3).name, t.name("absent")

    def delete(step: str, group_id: str, *topics: tuple[str, tuple[int, ...]]) -> None:
        named = [{"name": one, "partitions": [{"partition_index": i} for i in indexes]} for one, indexes in topics]
        t.call(step, "offset_delete", v, {"group_id": group_id, "topics": named})

    delete("no group", group.group, (name, (0,)))
    delete("no group, unknown topic", group.group, (absent, (0,)))
    delete("no group name", "", (name, (0,)))
    group.commit("commit", 9, topic(name, partition(0), partition(1), partition(2)))
    delete("nothing", group.group)
    delete("one", group.group, (name, (0,)))
    delete("again, with unknown ones", group.group, (name, (0, 7, 1)), (absent, (0,)))
    delete("topic twice, partition twice", group.group, (name, (1, 1)), (name, (2,)))
    group.committed("none left", name)
    group.exists("the group stays")
    group.delete()


@scenario("delete_groups", range(3))
def deletes_groups(t: Talk, v: int) -> None:
    group, other = Committer(t), Committer(t, "other")
    name = t.topic("t", 3).name
    group.commit("commit", 9, topic(name, partition(0), partition(1)))
    other.commit("commit of another", 9, topic(name, partition(0)))
    names = [group.group, t.prefix + "nobody", group.group]
    t.call("deleted", "delete_groups", v, {"groups_names": names})
    t.call("again", "delete_groups", v, {"groups_names": names})
    t.call("none", "delete_groups", v, {"groups_names": []})
    group.committed("its offsets", name)
    other.committed("the other's offsets", name)
    other.delete()


@scenario("describe_groups", range(7))
def describes(t: Talk, v: int) -> None:
    group = Committer(t)
    name = t.topic("t").name
    group.commit("commit", 9, topic(name, partition(0)))
    for asked in (False, True) if v >= 3 else (False,):
        body = {"groups": [group.group, t.prefix + "nobody"], "include_authorized_operations": asked}
        t.call(f"simple and none, operations {asked}", "describe_groups", v, body)
    t.call("nothing", "describe_groups", v, {"groups": []})
    group.delete()


@scenario("list_groups", range(6))
def lists(t: Talk, v: int) -> None:
    group = Committer(t)
    name = t.topic("t").name
    group.commit("commit", 9, topic(name, partition(0)))

    def ours(step: str, **filters: list[str]) -> None:
        def pick(answer: dict[str, Any]) -> Any:
            return answer | {"groups": [one for one in answer["groups"] if one["group_id"].startswith(t.prefix)]}

        t.call(step, "list_groups", v, filters, pick=pick)

    ours("all")
    if v >= 4:
        for states in (["Empty"], ["eMPTY", "Stable"], ["Stable"], ["nonsense"]):
            ours(f"states {states}", states_filter=states)
    if v >= 5:
        for types in (["classic"], ["CLASSIC", "share"], ["consumer"], ["nonsense"]):
            ours(f"types {types}", types_filter=types)
        ours("states and types", states_filter=["Empty"], types_filter=["classic"])
    group.delete()
