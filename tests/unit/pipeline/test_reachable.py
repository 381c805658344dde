"""The address of the brokers is asked before anything else: what leads nowhere is told with what was tried."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from odradek_pipeline import kafka as reachable
from odradek_pipeline.kafka import NotReachable, require_brokers
from tests.ports import free_port


@pytest.fixture
def server() -> Iterator[tuple[str, list[bytes]]]:
    """An address that answers each connection with the bytes in the list."""
    listening = socket.create_server(("127.0.0.1", 0))
    answers: list[bytes] = [b""]

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(1000)
                connection.sendall(answers[0])

    threading.Thread(target=serve, daemon=True).start()
    yield f"127.0.0.1:{listening.getsockname()[1]}", answers
    listening.close()


def told(bootstrap: str, **client: str) -> str:
    with pytest.raises(NotReachable) as refused:
        require_brokers(bootstrap, {name.replace("_", "."): value for name, value in client.items()})
    return refused.value.message


def test_a_broker_among_wrong_addresses_is_enough(server: tuple[str, list[bytes]]) -> None:
    address, answers = server
    answers[0] = b"\0\0\0\x06\0\0\0\x01\0\0"
    require_brokers(f"127.0.0.1:{free_port()}, {address}", {})


def test_each_address_is_told_with_what_is_wrong() -> None:
    port = free_port()
    message = told(f"127.0.0.1:{port},no.such.host.invalid:9092,localhost")
    assert f"127.0.0.1:{port}: 127.0.0.1 Connection refused" in message
    assert "no.such.host.invalid:9092: the name is not known" in message
    assert "localhost: expected HOST:PORT" in message


def test_what_answers_and_is_not_kafka_is_told(server: tuple[str, list[bytes]]) -> None:
    address, answers = server
    answers[0] = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    assert "no Kafka listener without TLS" in told(address)


def test_a_listener_with_tls_is_only_connected_to(server: tuple[str, list[bytes]]) -> None:
    require_brokers(server[0], {"security.protocol": "SSL"})


def test_the_time_for_all_addresses_is_bounded() -> None:
    assert reachable.TOTAL_S < 10
