"""Who changed what in the console: the page, the log, and what is not noted."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from broker.console.actions import ACTIONS
from broker.console.audit import MOST_NOTES
from tests.unit.broker.console.browsing import browsing
from tests.unit.broker.console.test_login import SASL, log_in
from tests.unit.broker.console.test_topic_forms import WRITE
from tests.unit.broker.rig import Rig


async def test_a_change_is_noted_with_who_from_where_what_and_its_outcome() -> None:
    async with Rig(config={**WRITE, **SASL}) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with browsing(rig) as browser:
            await log_in(browser, "otto", "o")
            with capture_logs() as lines:
                await browser.post("/create-topic", topic="t", partitions="2")
                await browser.post("/create-topic", 409, topic="t")
            page = await browser.get("/audit")
            done = "User:otto 127.0.0.1 create-topic topic=t partitions=2 done"
            assert done in page.text
            assert "create-topic topic=t refused TOPIC_ALREADY_EXISTS" in page.text
            assert page.text.index("refused") < page.text.index(done), "the newest first"
            assert "TOPIC_ALREADY_EXISTS" not in (await browser.get("/audit?q=done")).text
    noted = [line for line in lines if line["event"].startswith("console ")]
    assert [line["event"] for line in noted] == ["console changed", "console refused"]
    assert [noted[0][name] for name in ("user", "address", "action")] == ["User:otto", "127.0.0.1", "create-topic"]
    assert noted[0]["asked"] == {"topic": "t", "partitions": "2"}


async def test_what_is_refused_for_want_of_a_setting_is_noted_too() -> None:
    async with Rig() as rig, browsing(rig) as browser:
        await browser.post("/delete-topic", 403, topic="t")
        page = await browser.get("/audit")
        assert "User:ANONYMOUS 127.0.0.1 delete-topic topic=t refused the console only shows" in page.text


async def test_contents_and_secret_values_are_not_noted() -> None:
    config = {**WRITE, "ssl.keystore.type": "PKCS12"}
    async with Rig(config=config) as rig, browsing(rig) as browser:
        await rig.create("t")
        await browser.post(
            "/produce-record", topic="t", key="told", value="told", header_name_0="told", header_0="told"
        )
        for key in ("ssl.keystore.password", "listener.name.x.plugin.secret"):
            await browser.session.post("/alter-broker-config", data={"key": key, "value": "told", "do": "set"})
        await browser.post("/alter-topic-config", topic="t", key="retention.ms", value="5")
        page = await browser.get("/audit")
        assert "told" not in page.text
        assert "value=(hidden)" in page.text
        assert "key=retention.ms value=5" in page.text


async def test_memory_for_notes_is_bounded() -> None:
    async with Rig() as rig, browsing(rig) as browser:
        await browser.post("/delete-topic", 403, topic="first")
        await browser.post("/delete-topic", 403, topic="x" * 10_000)
        note = browser.app.audit.notes()[0]
        assert len(note.asked["topic"]) == 200
        for _ in range(MOST_NOTES):
            browser.app.audit.append(note)
        assert len(browser.app.audit.notes()) == MOST_NOTES
        assert "first" not in {one.asked["topic"] for one in browser.app.audit.notes()}


@pytest.mark.parametrize("action", ACTIONS)
async def test_every_action_is_noted(action: str) -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        await browser.session.post(f"/{action}", data={"topic": "t"})
        assert [one.action for one in browser.app.audit.notes()] == [action]
