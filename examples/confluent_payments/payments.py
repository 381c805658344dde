"""A service that pays: for each record of `payments` exactly one of `receipts`, in transactions.

Both are Avro, by schemas that a schema registry knows.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

PAYMENTS, RECEIPTS = "payments", "receipts"
GROUP = TRANSACTIONAL_ID = "payments"
TIMEOUT_S = 30
PAYMENT, RECEIPT = (Path(__file__).with_name(name) for name in ("payment.avsc", "receipt.avsc"))


class Payments:
    """One instance works; another that starts takes its place, and fences it."""

    def __init__(self, config: Mapping[str, Any], registry: str, name: str) -> None:
        """`registry` is the URL of the schema registry."""
        schemas = SchemaRegistryClient({"url": registry})
        self._read = AvroDeserializer(schemas, PAYMENT.read_text())
        self._write = AvroSerializer(schemas, RECEIPT.read_text())
        self._consumer = Consumer(
            {**config, "client.id": name, "group.id": GROUP, "enable.auto.commit": False}
            | {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        )
        self._producer = Producer({**config, "client.id": name, "transactional.id": TRANSACTIONAL_ID})

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set. Raises KafkaException when another instance has taken over."""
        self._producer.init_transactions(TIMEOUT_S)
        self._consumer.subscribe([PAYMENTS])
        try:
            while not stop.is_set():
                message = self._consumer.poll(0.1)
                if message is not None and message.error() is None:
                    self._pay(message)
        finally:
            self._consumer.close()

    def _pay(self, message: Message) -> None:
        """Pay in a transaction; if that has to be aborted, the payment is read again."""
        try:
            self._producer.begin_transaction()
            self._producer.produce(RECEIPTS, self._receipt_for(message), key=message.key())
            done = TopicPartition(PAYMENTS, message.partition() or 0, (message.offset() or 0) + 1)
            self._producer.send_offsets_to_transaction([done], self._consumer.consumer_group_metadata(), TIMEOUT_S)
            self._commit()
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(TIMEOUT_S)
            self._read_again(message)

    def _receipt_for(self, message: Message) -> bytes | None:
        payment = self._read(message.value(), SerializationContext(PAYMENTS, MessageField.VALUE))
        receipt = {"payment": payment["id"], "paid": payment["cents"]}
        written: bytes | None = self._write(receipt, SerializationContext(RECEIPTS, MessageField.VALUE))
        return written

    def _commit(self) -> None:
        """Commit; nobody may give up before the end is known."""
        while True:
            try:
                return self._producer.commit_transaction(TIMEOUT_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def _read_again(self, message: Message) -> None:
        place = TopicPartition(PAYMENTS, message.partition() or 0, message.offset() or 0)
        if place in self._consumer.assignment():  # otherwise whoever has it reads it from the committed offset on
            self._consumer.seek(place)
