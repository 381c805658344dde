"""A service on FastStream: for each signup, a welcome mail. What is no signup is put aside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from faststream import AckPolicy, ExceptionMiddleware
from faststream.kafka import KafkaBroker
from faststream.kafka.annotations import KafkaMessage
from pydantic import BaseModel, ValidationError

SIGNUPS, MAILS, UNREADABLE = "signups", "mails", "signups-unreadable"


class Signup(BaseModel):
    id: int
    name: str


class Mail(BaseModel):
    to: int
    text: str


Translate = Callable[[str], Awaitable[str]]


async def in_english(text: str) -> str:
    return text


def make_service(config: dict[str, Any], translate: Translate = in_english) -> KafkaBroker:
    """The service; `translate` is another one that it calls, and may fail."""
    unreadable = ExceptionMiddleware()
    service = KafkaBroker(**config, acks="all", enable_idempotence=True, middlewares=[unreadable])

    @unreadable.add_handler(ValidationError)
    async def put_aside(error: ValidationError, message: KafkaMessage) -> None:
        reason = str(error.error_count()) + " errors: " + error.errors()[0]["msg"]
        await service.publish(message.body, UNREADABLE, headers={"reason": reason})

    @service.subscriber(
        SIGNUPS, group_id="mailer", auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR, max_poll_records=1
    )
    @service.publisher(MAILS)
    async def welcome(signup: Signup) -> Mail:
        return Mail(to=signup.id, text=await translate(f"Welcome, {signup.name}!"))

    return service
