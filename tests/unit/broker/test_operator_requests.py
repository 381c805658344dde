"""What operators ask over Kafka's listener, of a whole node in virtual time: explanations, backups and their rights."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kio.schema.create_acls.v3.request import AclCreation

from broker import operator_requests
from broker.config.broker_config import ConfigurationError
from broker.config.sources import load
from broker.network.request import ANONYMOUS, Principal
from broker.testkit.inspection import groups
from metadata.acls import AclOperation, PatternType, PermissionType, ResourceType
from protocol.api.table import API_TABLE, OWN_TABLE
from storage.state.manifest import read
from tests.doubles.clock import settle
from tests.unit.broker.members import CONFIG, ConsumerMember, commit
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer, batch, produce

FOLDER = {"odradek.backup.folder": "/backups"}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ALICE = Principal("User", "alice")


@asynccontextmanager
async def node(**more: str) -> AsyncIterator[Rig]:
    """A node that answers operators; `more` are settings with underscores in place of dots."""
    async with Rig(config=CONFIG | {name.replace("_", "."): value for name, value in more.items()}) as rig:
        operator_requests.begin(rig.node)
        yield rig


def client_of(rig: Rig, principal: Principal) -> Client:
    client = rig.connect()
    client.connection.principal = principal
    return client


async def ask(client: Client, api: str, **fields: Any) -> Any:
    """The answer, as soon as it comes: a backup takes more than one turn of the loop."""
    client.send(api, 0, **fields)
    for _ in range(100):
        await settle()
        if replies := client.replies():
            return answer(replies[0], api, 0)
    raise AssertionError(f"{api} was not answered")


async def allow(rig: Rig, operation: AclOperation) -> None:
    created = AclCreation(
        resource_type=ResourceType.CLUSTER,
        resource_name="kafka-cluster",
        resource_pattern_type=PatternType.LITERAL,
        principal=str(ALICE),
        host="*",
        operation=operation,
        permission_type=PermissionType.ALLOW,
    )
    done = await client_of(rig, ANONYMOUS).ask("create_acls", 3, creations=(created,))
    assert [one.error_code.name for one in done.results] == ["none"]


async def test_explain_over_the_listener_says_what_the_control_interface_says() -> None:
    async with node() as rig:
        await rig.create("t")
        await commit(rig.connect(), "readers", "t", {0: 0})
        client = rig.connect()
        found = await ask(client, "explain", kind="group", name="reader")
        assert found.error_code.name == "none"
        (finding,) = found.findings
        assert (finding.severity, finding.rule) == ("problem", "group_does_not_exist")
        assert "Did you mean readers?" in finding.advice
        topic = await ask(client, "explain", kind="topic", name="t")
        assert [one.rule for one in topic.findings] == ["has_no_records", "is_read_by"]
        transaction = await ask(client, "explain", kind="transaction", name="pay")
        assert [one.rule for one in transaction.findings] == ["does_not_exist"]


async def test_explain_refuses_what_it_does_not_know() -> None:
    async with node() as rig:
        refused = await ask(rig.connect(), "explain", kind="partition", name="t-0")
        assert refused.error_code.name == "invalid_request"
        assert refused.error_message == "kind = 'partition': expected one of group, topic, transaction"


async def test_without_a_journal_nobody_is_said_not_to_fetch() -> None:
    async with node() as rig:
        await rig.create("t")
        await rig.connect().ask("produce", 9, **produce("t", {0: batch(b"a", b"b")}))
        await commit(rig.connect(), "g", "t", {0: 0})
        await ConsumerMember(rig, "g", "t").heartbeat()
        found = await ask(rig.connect(), "explain", kind="group", name="g")
        rules = {one.rule: one for one in found.findings}
        assert "is_not_fetched" not in rules
        assert rules["is_behind"].text.startswith("group g has not committed 2 records of t-0:")


async def test_explain_leaves_the_loop_to_others_between_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "VIEWED_AT_ONCE", 2)
    async with node() as rig:
        await rig.create("t")
        for number in range(20):
            await commit(rig.connect(), f"g{number}", "t", {0: 0})
        asking = asyncio.ensure_future(groups.list_groups(rig.node.coordinators.groups))
        turns = 0
        while not asking.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 10
        assert [one.group_id for one in await asking] == sorted(f"g{number}" for number in range(20))
        found = await ask(rig.connect(), "explain", kind="topic", name="t")
        assert next(one for one in found.findings if one.rule == "is_read_by").text.endswith("and 15 more")


async def test_explain_and_backup_ask_for_alter_on_the_cluster() -> None:
    async with node(**AUTHORIZER, **FOLDER) as rig:
        alice = client_of(rig, ALICE)
        for operation in (None, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION, AclOperation.ALTER_CONFIGS):
            if operation is not None:
                await allow(rig, operation)
            refused = await ask(alice, "explain", kind="group", name="g")
            assert (refused.error_code.name, refused.findings) == ("cluster_authorization_failed", ())
            refused = await ask(alice, "create_backup", path="b")
            assert refused.error_code.name == "cluster_authorization_failed"
        assert not rig.fs.exists("/backups")
        await allow(rig, AclOperation.ALTER)
        assert (await ask(alice, "explain", kind="group", name="g")).error_code.name == "none"
        assert (await ask(alice, "create_backup", path="b")).error_code.name == "none"


async def test_a_backup_over_the_listener_is_one_moment_of_the_node() -> None:
    async with node(**FOLDER) as rig:
        await rig.create("t")
        await rig.connect().ask("produce", 9, **produce("t", {0: batch(b"a")}))
        made = await ask(rig.connect(), "create_backup", path="monday")
        assert (made.error_code.name, made.path) == ("none", "/backups/monday")
        assert made.size == read(rig.fs, "/backups/monday").size > 0
        whole = await ask(rig.connect(), "create_backup", path="/backups/tuesday")
        assert whole.path == "/backups/tuesday"


async def test_no_backup_is_made_where_no_folder_is_set() -> None:
    async with node() as rig:
        refused = await ask(rig.connect(), "create_backup", path="/data/b")
        assert refused.error_code.name == "policy_violation"
        assert "odradek.backup.folder" in refused.error_message
        assert not rig.fs.exists("/data/b")


@pytest.mark.parametrize(
    "path",
    ["", ".", "..", "../b", "/data/b", "/backups", "/backups/", "a/b", "a/../../b", "/backups/../b", "b\0", "//b"],
)
async def test_a_backup_lies_right_below_the_folder(path: str) -> None:
    async with node(**FOLDER) as rig:
        before = {name: rig.fs.listdir(name) for name in ("/", "/data")}
        refused = await ask(rig.connect(), "create_backup", path=path)
        assert refused.error_code.name == "invalid_request"
        assert {name: rig.fs.listdir(name) for name in ("/", "/data")} == before


async def test_a_backup_does_not_take_the_place_of_another_nor_runs_beside_one() -> None:
    async with node(**FOLDER) as rig:
        assert (await ask(rig.connect(), "create_backup", path="b")).error_code.name == "none"
        again = await ask(rig.connect(), "create_backup", path="b")
        assert (again.error_code.name, "exists already" in again.error_message) == ("invalid_request", True)
        async with rig.node.changing:
            beside = await asyncio.wait_for(ask(rig.connect(), "create_backup", path="c"), 10)
        assert (beside.error_code.name, "another backup" in beside.error_message) == ("invalid_request", True)
        assert not rig.fs.exists("/backups/c")


async def test_two_backups_of_one_name_at_the_same_time_leave_the_first_whole() -> None:
    async with node(**FOLDER) as rig:
        first, second = await asyncio.gather(*(ask(rig.connect(), "create_backup", path="b") for _ in range(2)))
        assert sorted(answer.error_code.name for answer in (first, second)) == ["invalid_request", "none"]
        assert rig.fs.exists("/backups/b/snapshot.json")


async def test_a_folder_that_is_there_is_no_place_for_a_backup() -> None:
    async with node(**FOLDER) as rig:
        rig.fs.mkdir("/backups/b")
        refused = await ask(rig.connect(), "create_backup", path="b")
        assert "exists already" in refused.error_message


async def test_a_backup_that_cannot_be_written_is_a_storage_error_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with node(**FOLDER) as rig:
        monkeypatch.setattr("storage.state.manifest.StateManifest.write", no_room)
        refused = await ask(rig.connect(), "create_backup", path="b")
        assert refused.error_code.name == "kafka_storage_error"
        assert "No space left on device" in refused.error_message
        assert not rig.fs.exists("/backups/b")


async def test_api_versions_lists_our_own_requests_for_odradek_alone() -> None:
    async with node() as rig:

        async def listed(software: str) -> set[int]:
            fields = {"client_software_name": software, "client_software_version": "1.0"}
            found = await rig.connect().ask("api_versions", 4, **fields)
            return {one.api_key for one in found.api_keys}

        kafkas = {api.key for api in API_TABLE if api.advertised}
        assert await listed("apache-kafka-java") == kafkas
        assert await listed("odradek") == kafkas | {api.key for api in OWN_TABLE}


async def test_a_node_that_does_not_serve_operators_closes_as_for_an_unknown_request() -> None:
    async with Rig(config=CONFIG) as rig:
        client = rig.connect()
        client.send("explain", 0, kind="group", name="g")
        assert await client.closed()


@pytest.mark.parametrize("folder", ["backups", "/data", "/data/backups", "/other/../data"])
def test_the_folder_of_backups_is_absolute_and_outside_of_the_data(folder: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"odradek.backup.folder = {folder!r}: expected")):
        load((), {}, ["log.dirs=/data", f"odradek.backup.folder={folder}"])
    load((), {}, ["log.dirs=/data", "odradek.backup.folder=/data-backups"])


async def test_a_backup_is_not_written_where_a_planted_symbolic_link_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    async with node(**{"odradek.backup.folder": "/backups"}) as rig:
        rig.fs.mkdir("/backups/monday")  # as the link's target: an empty folder
        monkeypatch.setattr(rig.fs, "is_link", lambda path: path == "/backups/monday")
        refused = await ask(rig.connect(), "create_backup", path="monday")
        assert (refused.error_code.name, "is a symbolic link" in refused.error_message) == ("invalid_request", True)
        assert rig.fs.listdir("/backups/monday") == []
