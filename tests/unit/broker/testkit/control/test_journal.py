"""The journal: what it keeps, and what it shows of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import structlog
from kio.schema.alter_user_scram_credentials.v0.request import ScramCredentialUpsertion
from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource
from kio.schema.metadata.v1.request import MetadataRequestTopic

from broker.logging import WARNINGS
from broker.network.request import Principal
from broker.testkit import journal as recorder
from broker.testkit.control.endpoint import ControlError
from metadata.configs import ResourceType
from tests.doubles.clock import settle
from tests.unit.broker.members import CONFIG, ClassicMember
from tests.unit.broker.rig import Rig
from tests.unit.broker.testkit.control.asking import control, keep_journal
from tests.unit.broker.wire import batch, fetch, produce, sized


async def entries(rig: Rig, **given: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await control(rig, "GET", "/journal", **given))["entries"]
    return found


async def test_requests_and_answers_are_shown_decoded_with_the_time_they_took() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        keep_journal(rig)
        member = ClassicMember(rig, "g", "t")
        await member.enter({"t": [0]})
        joins = await entries(rig, api="JoinGroup")
        assert [one["answer"]["error_code"] for one in joins] == ["MEMBER_ID_REQUIRED", "NONE"]
        second = joins[1]
        assert (second["request"]["member_id"], second["request"]["session_timeout"]) == (member.member_id, 10)
        assert (second["answer"]["generation_id"], second["took"], second["outcome"]) == (1, 0.001, "answered")
        assert (second["client_id"], second["client"], second["version"]) == ("c1", "10.0.0.7:50000", 9)
        (sync,) = await entries(rig, api="sync_group", client_id="c1")
        assert "assignment_base64" in sync["answer"]


async def test_records_are_counted_and_not_shown() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        keep_journal(rig)
        client = rig.connect()
        await client.ask("produce", 9, **produce("t", {0: batch(b"secret")}))
        await client.ask("fetch", 12, **fetch([("t", 0, 0)]))
        written, read = await entries(rig, client_id="test")
        size = len(batch(b"secret"))
        assert written["request"]["topic_data"][0]["partition_data"] == [{"index": 0, "records": f"{size} bytes"}]
        assert written["answer"]["responses"][0]["partition_responses"][0]["error_code"] == "NONE"
        assert read["answer"]["responses"][0]["partitions"][0]["records"] == f"{size} bytes"


async def test_of_secrets_is_shown_only_that_there_is_one() -> None:
    secret = b"what nobody may see"
    tokens = {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT", "delegation.token.secret.key": "k"}
    async with Rig(config=CONFIG | tokens) as rig:
        keep_journal(rig)
        client = rig.connect()
        client.connection.principal = Principal("User", "alice")
        user = ScramCredentialUpsertion(name="bob", mechanism=1, iterations=4096, salt=b"salt", salted_password=secret)
        await client.ask("alter_user_scram_credentials", 0, deletions=(), upsertions=(user,))
        changes = (
            AlterableConfig(name="listener.name.plaintext.ssl.key.password", config_operation=0, value=secret.decode()),
            AlterableConfig(name="log.retention.ms", config_operation=0, value="1234"),
        )
        resource = AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name="1", configs=changes)
        await client.ask("incremental_alter_configs", 1, resources=(resource,), validate_only=True)
        made = await client.ask("create_delegation_token", 1, renewers=(), max_lifetime=timedelta(milliseconds=-1))
        client.send("renew_delegation_token", 2, hmac=made.hmac, renew_period=timedelta(milliseconds=-1))
        await settle()
        altered, configured, created, renewed = await entries(rig, client_id="test")
    assert altered["request"]["upsertions"][0]["salted_password"] == "[hidden]"
    assert [one["value"] for one in configured["request"]["resources"][0]["configs"]] == ["[hidden]", "1234"]
    assert (created["answer"]["hmac_base64"], created["answer"]["error_code"]) == ("[hidden]", "NONE")
    assert renewed["request"]["hmac_base64"] == "[hidden]"
    assert secret.decode() not in str([altered, configured, created, renewed])


async def test_a_request_that_waits_is_shown_as_waiting_and_one_that_closes_with_why() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        keep_journal(rig)
        waiting = rig.connect()
        waiting.send("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=1000, min_bytes=1))
        await settle()
        (shown,) = await entries(rig, api="Fetch")
        assert (shown["outcome"], shown["answer"]) == ("waiting", None)
        bad = rig.connect()
        bad.transport.feed(sized(bytes.fromhex("000b 0009 00000001 ffff 00".replace(" ", ""))))
        assert await bad.closed()
        *_, shown, gone = await entries(rig)
        assert (shown["outcome"], "join_group v9" in shown["error"]) == ("connection closed", True)
        assert (gone["kind"], gone["client"]) == ("connection closed", "10.0.0.7:50000")


async def test_a_mark_divides_what_was_from_what_comes_and_the_newest_are_kept_within_the_limit() -> None:
    async with Rig(config=CONFIG) as rig:
        keep_journal(rig)
        client = rig.connect()
        await client.ask("metadata", 1, topics=())
        mark = (await control(rig, "GET", "/journal", limit=0))["mark"]
        assert await entries(rig, since=mark) == []
        await client.ask("metadata", 2, topics=())
        await client.ask("metadata", 3, topics=())
        assert [one["version"] for one in await entries(rig, since=mark)] == [2, 3]
        assert [one["version"] for one in await entries(rig, limit=1)] == [3]
        assert (await entries(rig, limit=1000))[0]["kind"] == "connection opened"


async def test_an_unknown_api_is_refused_with_near_names() -> None:
    async with Rig(config=CONFIG) as rig:
        with pytest.raises(ControlError, match="keeps no journal"):
            await entries(rig)
        keep_journal(rig)
        with pytest.raises(ControlError, match="JoinGroup") as caught:
            await entries(rig, api="JoinGroups")
        assert caught.value.parameter == "api"


async def test_the_oldest_entries_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MOST_ENTRIES", 20)
    async with Rig(config=CONFIG) as rig:
        keep_journal(rig)
        client = rig.connect()
        for number in range(30):
            await client.ask("metadata", 1, topics=(MetadataRequestTopic(name=f"t{number}"),))
        kept = await entries(rig, limit=100)
        assert len(kept) == 20
        assert kept[0]["request"]["topics"] == [{"name": "t10"}]


async def test_of_a_large_request_the_header_is_kept_and_of_a_large_answer_the_size() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        keep_journal(rig)
        client = rig.connect()
        await client.ask("produce", 9, **produce("t", {0: batch(bytes(100_000))}))
        await client.ask("fetch", 12, **fetch([("t", 0, 0)]))
        written, read = await entries(rig, client_id="test")
        assert (written["api"], written["request"], written["request_bytes"] > 100_000) == ("Produce", None, True)
        assert (read["api"], read["answer"], read["answer_bytes"] > 100_000) == ("Fetch", None, True)


async def test_warnings_of_the_log_are_in_it(own_logging: None) -> None:
    async with Rig(config=CONFIG) as rig:
        keep_journal(rig)
        structlog.configure(processors=[WARNINGS, *structlog.get_config()["processors"]])
        structlog.get_logger().info("all is well")
        structlog.get_logger().warning("something is odd", partition="t-0")
        (shown,) = await entries(rig)
        assert (shown["kind"], shown["level"], shown["text"], shown["fields"]) == (
            "warning",
            "warning",
            "something is odd",
            {"partition": "t-0"},
        )
        WARNINGS.listener = None


async def test_a_connection_that_is_gone_leaves_nothing_behind() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        journal = keep_journal(rig)
        client = rig.connect()
        await client.ask("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=0))
        assert len(journal.fetches()) == len(journal.clients) == 1
        client.transport.reset()
        await settle()
        assert (journal.fetches(), journal.clients) == ([], {})


async def test_times_that_stand_for_none_keep_their_number() -> None:
    none = timedelta(milliseconds=-1)
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        keep_journal(rig)
        client = rig.connect()
        client.send(
            "offset_commit",
            2,
            group_id="g",
            generation_id_or_member_epoch=-1,
            member_id="",
            retention_time=none,
            topics=(),
        )
        client.send("renew_delegation_token", 2, hmac=b"h", renew_period=none)
        client.send("produce", 9, **{**produce("t", {0: batch(b"v")}), "timeout": none})
        client.send("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=-1))
        await settle()
        committed, renewed, written, read = [one["request"] for one in await entries(rig, client_id="test")]
    assert (committed["retention_time"], renewed["renew_period"]) == (-1, -1)
    assert (written["timeout"], read["max_wait"]) == (-1, -1)
