"""Configurations of topics and brokers in the console: what they mean, where they come from, and their change."""

from __future__ import annotations

import pytest

from broker.config.defs import TOPIC_CONFIGS, definition_of
from broker.console.configs import meaning
from tests.unit.broker.console.browsing import browsing
from tests.unit.broker.console.test_topic_forms import WRITE, refused
from tests.unit.broker.rig import Rig


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("retention.ms", "604800000", "7 d"),
        ("retention.ms", "-1", "unlimited"),
        ("retention.bytes", "-1", "unlimited"),
        ("retention.bytes", "1000000", "1.0 MB"),
        ("log.retention.hours", "168", "7 d"),
        ("flush.messages", str((1 << 63) - 1), "unlimited"),
        ("cleanup.policy", "delete", ""),
        ("num.io.threads", "8", ""),
        ("retention.ms", "a week", ""),
    ],
)
def test_a_value_is_said_in_units_for_people(name: str, value: str, said: str) -> None:
    assert meaning(TOPIC_CONFIGS.get(name) or definition_of(name), value) == said


async def test_what_is_set_for_the_topic_comes_first_with_its_default() -> None:
    async with Rig() as rig:
        await rig.create("t", retention_ms="60000")
        async with browsing(rig) as browser:
            page = await browser.get("/topic-configs?name=t")
            rows = page.text.partition("Change")[2]
            assert rows.index("retention.ms") < rows.index("cleanup.policy")
            assert "60000 1 min this topic 604800000 long" in page.text
            only = await browser.get("/topic-configs?name=t&only=set")
            assert "cleanup.policy" not in only.text
            assert "there is no topic 'u'" in (await browser.get("/topic-configs?name=u", 404)).text


async def test_a_topics_configuration_is_set_and_reset() -> None:
    async with Rig(config=WRITE) as rig:
        await rig.create("t")
        async with browsing(rig) as browser:
            page = await browser.get("/topic-configs?name=t&key=retention.ms")
            assert "Change retention.ms" in page.text
            assert "Back to the default" not in page.text, "it is not set"
            place = await browser.post("/alter-topic-config", topic="t", key="retention.ms", value="5", do="set")
            assert place == "topic-configs?name=t&done=The+configuration+was+changed."
            assert dict(rig.node.cluster.cache.topic_configs("t")) == {"retention.ms": "5"}
            assert "Back to the default" in (await browser.get("/topic-configs?name=t&key=retention.ms")).text
            await browser.post("/alter-topic-config", topic="t", key="retention.ms", value="5", do="reset")
            assert dict(rig.node.cluster.cache.topic_configs("t")) == {}
            refusal = await refused(
                browser, "alter-topic-config", 409, topic="t", key="retention.ms", value="a week", do="set"
            )
            assert "INVALID_CONFIG" in refusal.text
            values = {one.get("name"): one.get("value") for one in refusal.all("input")}
            assert values["value"] == "a week"


async def test_a_brokers_dynamic_configuration_is_set_for_one_and_for_all() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        name = "log.cleaner.threads"
        for broker, value in (("1", "2"), ("all", "1")):
            form = {"broker": broker, "key": name, "value": value, "do": "set"}
            place = await browser.post("/alter-broker-config", **form)
            assert place.startswith(f"broker-configs?broker={broker}&")
        page = await browser.get("/broker-configs?broker=1&only=set")
        assert "2 this broker 1 int" in page.text, "without a value of its own it would have that of all brokers"
        assert "1 all brokers 1 int" in (await browser.get("/broker-configs?broker=all")).text
        await browser.post("/alter-broker-config", broker="1", key=name, do="reset")
        assert rig.node.local.config.integer(name) == 1


async def test_what_is_read_at_a_start_alone_is_not_to_be_edited() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        page = await browser.get("/broker-configs?key=log.dirs")
        assert "set it in the broker's file and start the broker again" in page.text
        assert "alter-broker-config" not in [one.get("action") for one in page.all("form")]
        text = await browser.post("/alter-broker-config", 409, broker="1", key="log.dirs", value="/x", do="set")
        assert "INVALID_REQUEST" in text


async def test_secrets_are_not_shown() -> None:
    config = {**WRITE, "delegation.token.secret.key": "told to nobody"}
    async with Rig(config=config) as rig, browsing(rig) as browser:
        page = await browser.get("/broker-configs?key=delegation.token.secret.key")
        assert "told to nobody" not in page.text
        assert "(secret)" in page.text


async def test_an_unknown_broker_and_name_are_told() -> None:
    async with Rig() as rig, browsing(rig) as browser:
        assert "there is no broker 7 that is alive" in (await browser.get("/broker-configs?broker=7", 404)).text
        assert "there is no configuration 'x'" in (await browser.get("/broker-configs?key=x", 404)).text
