"""A service on FastStream: for each signup, a welcome mail. What is no signup is put aside.

Both are Avro, by schemas that a schema registry knows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import AsyncSchemaRegistryClient
from confluent_kafka.schema_registry.avro import AsyncAvroDeserializer, AsyncAvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from faststream import AckPolicy, ExceptionMiddleware
from faststream.kafka import KafkaBroker
from faststream.kafka.annotations import KafkaMessage
from pydantic import BaseModel

SIGNUPS, MAILS, UNREADABLE = "signups", "mails", "signups-unreadable"
SIGNUP, MAIL = (Path(__file__).with_name(name) for name in ("signup.avsc", "mail.avsc"))


class Signup(BaseModel):
    id: int
    name: str


class Mail(BaseModel):
    to: int
    text: str


Translate = Callable[[str], Awaitable[str]]


async def in_english(text: str) -> str:
    return text


async def make_service(config: dict[str, Any], registry: str, translate: Translate = in_english) -> KafkaBroker:
    """The service; `registry` is the URL of the schema registry, `translate` another service, which may fail."""
    schemas = AsyncSchemaRegistryClient({"url": registry})
    read = await AsyncAvroDeserializer(schemas, SIGNUP.read_text())
    write = await AsyncAvroSerializer(schemas, MAIL.read_text())
    unreadable = ExceptionMiddleware()
    service = KafkaBroker(**config, acks="all", enable_idempotence=True, middlewares=[unreadable])

    @unreadable.add_handler(SerializationError)
    async def put_aside(error: SerializationError, message: KafkaMessage) -> None:
        await service.publish(message.body, UNREADABLE, headers={"reason": str(error)})

    async def decode(message: KafkaMessage) -> Any:
        return await read(message.body, SerializationContext(SIGNUPS, MessageField.VALUE))

    @service.subscriber(
        SIGNUPS,
        group_id="mailer",
        auto_offset_reset="earliest",
        ack_policy=AckPolicy.NACK_ON_ERROR,
        max_poll_records=1,
        decoder=decode,
    )
    @service.publisher(MAILS)
    async def welcome(signup: Signup) -> bytes:
        mail = Mail(to=signup.id, text=await translate(f"Welcome, {signup.name}!"))
        written: bytes | None = await write(mail.model_dump(), SerializationContext(MAILS, MessageField.VALUE))
        assert written is not None
        return written

    return service
