"""A client of librdkafka pushes its metrics (KIP-714), and they are in the broker's `/metrics`."""

from __future__ import annotations

import struct
import urllib.request

from confluent_kafka import Producer

from odradek import Broker
from tests.client.raw import RawConnection, frame, header
from tests.waiting import wait_until

INCREMENTAL_ALTER_CONFIGS, CLIENT_METRICS, SET = 44, 16, 0


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def subscribe(broker: Broker, configs: dict[str, str]) -> None:
    """Ask all clients for metrics, as `kafka-client-metrics --alter` does."""
    entries = b"".join(text(name) + struct.pack(">b", SET) + text(value) for name, value in configs.items())
    resource = struct.pack(">b", CLIENT_METRICS) + text("all") + struct.pack(">i", len(configs)) + entries
    body = struct.pack(">i", 1) + resource + struct.pack(">?", False)
    connection = RawConnection(broker.bootstrap_servers)
    connection.send(frame(header(INCREMENTAL_ALTER_CONFIGS, 0, 1) + body))
    answer = connection.read_frame()
    assert struct.unpack_from(">h", answer, 12) == (0,), answer
    connection.socket.close()


def test_kip_714_what_librdkafka_pushes_is_exported() -> None:
    with Broker({"odradek.http.port": 0}) as broker:
        subscribe(broker, {"metrics": "*", "interval.ms": "200"})
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "pusher"})

        def pushed() -> bool:
            producer.produce("letters", b"x")
            producer.flush(10)
            with urllib.request.urlopen(f"http://127.0.0.1:{broker.http_port}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
            return any(
                line.startswith("kafka_client_producer_connection_creation_total{") and 'client_id="pusher"' in line
                for line in lines
            )

        wait_until(pushed, "no metric of the client is in /metrics")
