"""How the service takes what happens to it: a poisoned signup, a failing helper, a lost reply, a killed broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from faststream.kafka import KafkaBroker
from mails import MAILS, SIGNUP, SIGNUPS, UNREADABLE, make_service

import odradek as kit

pytestmark = pytest.mark.odradek(topics={SIGNUPS: 1, MAILS: 1, UNREADABLE: 1})
SECONDS = 30


@pytest.fixture
def config(odradek_client_config: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    return odradek_client_config("aiokafka")


@pytest.fixture
async def service(odradek: kit.Broker, config: dict[str, Any]) -> AsyncIterator[KafkaBroker]:
    """The service, running."""
    async with await make_service(config, odradek.registry.url) as service:
        await service.start()
        yield service


async def test_a_signup_gets_a_mail(odradek: kit.Broker, service: KafkaBroker) -> None:
    odradek.topic(SIGNUPS).produce({"id": 7, "name": "Ada"}, schema=SIGNUP)
    await odradek.topic(MAILS).expect_async({"to": 7, "text": "Welcome, Ada!"}, timeout=SECONDS)


async def test_a_poisoned_signup_is_put_aside_and_the_next_one_is_handled(
    odradek: kit.Broker, service: KafkaBroker
) -> None:
    odradek.topic(SIGNUPS).produce({"id": "seven"})
    odradek.topic(SIGNUPS).produce({"id": 8, "name": "Bob"}, schema=SIGNUP)
    await odradek.topic(MAILS).expect_async({"to": 8}, timeout=SECONDS)
    await odradek.group("mailer").wait_async(lag=0, timeout=SECONDS)
    (aside,) = odradek.topic(UNREADABLE).records()
    assert aside.json() == {"id": "seven"}
    assert b"magic byte" in aside.headers["reason"]


async def test_a_signup_whose_handling_fails_is_handled_again(odradek: kit.Broker, config: dict[str, Any]) -> None:
    failures = iter([OSError("no translator")] * 2)

    async def translate(text: str) -> str:
        for failure in failures:
            raise failure
        return text

    signups = [{"value": {"id": 7, "name": "Ada"}}, {"value": {"id": 8, "name": "Bob"}}]
    odradek.topic(SIGNUPS).produce_many(signups, schema=SIGNUP)
    async with await make_service(config, odradek.registry.url, translate) as service:
        await service.start()
        await odradek.group("mailer").wait_async(lag=0, timeout=SECONDS)
    assert [mail.json()["to"] for mail in odradek.topic(MAILS).records()] == [7, 8]


async def test_a_lost_reply_sends_no_second_mail(odradek: kit.Broker, service: KafkaBroker) -> None:
    with odradek.fault(api="Produce", topic=MAILS, phase="before_reply", disconnect=True, count=1) as fault:
        odradek.topic(SIGNUPS).produce({"id": 7, "name": "Ada"}, schema=SIGNUP)
        odradek.topic(SIGNUPS).produce({"id": 8, "name": "Bob"}, schema=SIGNUP)
        await odradek.group("mailer").wait_async(lag=0, timeout=SECONDS)
        assert fault.hits == 1
    assert [mail.json()["to"] for mail in odradek.topic(MAILS).records()] == [7, 8]


async def test_the_service_goes_on_after_the_broker_was_killed(odradek: kit.Broker, service: KafkaBroker) -> None:
    odradek.topic(SIGNUPS).produce({"id": 7, "name": "Ada"}, schema=SIGNUP)
    await odradek.topic(MAILS).expect_async({"to": 7}, timeout=SECONDS)
    odradek.kill()
    await asyncio.to_thread(odradek.restart)
    odradek.topic(SIGNUPS).produce({"id": 8, "name": "Bob"}, schema=SIGNUP)
    await odradek.topic(MAILS).expect_async({"to": 8}, timeout=SECONDS)
