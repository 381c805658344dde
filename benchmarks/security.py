"""What security costs, beside Kafka in one run: `python -m benchmarks.security --help`.

TLS handshakes and SCRAM logins a second, each on a connection of its own, with the broker's CPU for each; MB/s produced
and consumed with confluent-kafka over PLAINTEXT and over SASL_SSL; and how long a small client on PLAINTEXT waits (99th
percentile, longest, in ms) while 5,000 connections to the TLS listener never say a word. Medians of the rounds.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import resource
import socket
import ssl
import statistics
import struct
import sys
import tempfile
import time
import uuid
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from benchmarks.by_hand import data, frame, text
from benchmarks.contenders import Contender, arguments, contenders, serving
from benchmarks.measures import cpu_seconds
from benchmarks.stall import waits
from broker.security.tls.own_authority import make_certificates

THREADS = 4
USER, PASSWORD = "app", b"app-secret"
RECORD, RECORDS = bytes(range(200)) * 5, 100_000
SILENT = 5_000
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


def settings(folder: Path) -> dict[str, str]:
    store = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    }
    lines = {f"listener.name.{name}.scram-sha-256.sasl.jaas.config": MODULE for name in ("sasl_ssl", "sasl_plaintext")}
    return store | lines


def one_handshake(port: int, context: ssl.SSLContext) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        context.wrap_socket(connection, server_hostname="localhost").close()


def ask(connection: socket.socket, request: bytes) -> bytes:
    """The answer without size and correlation id."""
    connection.sendall(request)
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    return connection.recv(size, socket.MSG_WAITALL)[4:]


@cache
def salted(salt: bytes, iterations: int) -> bytes:
    """Once for all logins: what a login costs the client is not measured."""
    return hashlib.pbkdf2_hmac("sha256", PASSWORD, salt, iterations)


def one_login(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        ask(connection, frame(17, 1, text("SCRAM-SHA-256")))
        bare = f"n={USER},r={uuid.uuid4().hex}"
        challenge = _token(ask(connection, frame(36, 0, data(f"n,,{bare}".encode()))))
        parts = dict(part.split("=", 1) for part in challenge.split(","))
        final = f"c=biws,r={parts['r']}"
        client_key = hmac.digest(salted(b64decode(parts["s"]), int(parts["i"])), b"Client Key", "sha256")
        message = f"{bare},{challenge},{final}".encode()
        signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        done = _token(ask(connection, frame(36, 0, data(f"{final},p={b64encode(proof).decode()}".encode()))))
        if not done.startswith("v="):
            raise RuntimeError("refused")


def _token(answer: bytes) -> str:
    (error,) = struct.unpack_from(">h", answer)
    if error:
        raise RuntimeError(f"error {error}")
    (message,) = struct.unpack_from(">h", answer, 2)
    at = 4 + max(message, 0)
    (size,) = struct.unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + size].decode()


def rate(contender: Contender, once: Callable[[], None], seconds: float) -> tuple[float, float]:
    """How often in a second, by some threads, and the broker's CPU in us for each."""

    def repeat(_: int) -> int:
        done = 0
        while time.perf_counter() < end:
            once()
            done += 1
        return done

    before, began = cpu_seconds(contender.pid()), time.perf_counter()
    end = began + seconds
    with ThreadPoolExecutor(THREADS) as pool:
        count = sum(pool.map(repeat, range(THREADS)))
    return count / (time.perf_counter() - began), (cpu_seconds(contender.pid()) - before) * 1e6 / count


def client(contender: Contender, protocol: str, ca: Path) -> dict[str, Any]:
    config: dict[str, Any] = {"bootstrap.servers": f"127.0.0.1:{contender.ports[protocol]}"}
    if protocol == "SASL_SSL":
        config |= {"security.protocol": "sasl_ssl", "ssl.ca.location": str(ca), "sasl.mechanism": "SCRAM-SHA-256"}
        config |= {"sasl.username": USER, "sasl.password": PASSWORD.decode()}
    return config


def throughput(contender: Contender, protocol: str, ca: Path) -> tuple[float, float]:
    """MB/s produced, and consumed."""
    config, topic = client(contender, protocol, ca), f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(config)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer(config | {"linger.ms": 5, "queue.buffering.max.messages": RECORDS + 1})
    began = time.perf_counter()
    for _ in range(RECORDS):
        producer.produce(topic, RECORD)
    producer.flush(300)
    produced = time.perf_counter() - began
    consumer = Consumer(config | {"group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    while not consumer.poll(1):
        pass
    began, left = time.perf_counter(), RECORDS - 1
    while left:
        left -= len(consumer.consume(min(left, 10_000), 1))
    consumed = time.perf_counter() - began
    consumer.close()
    admin.delete_topics([topic])[topic].result(30)
    megabytes = len(RECORD) * RECORDS / 1e6
    return megabytes / produced, megabytes / consumed


@contextlib.contextmanager
def silence(port: int) -> Iterator[None]:
    """Connections that are opened and say nothing."""
    with contextlib.ExitStack() as stack:
        for _ in range(SILENT):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        yield


def one_pass(contender: Contender, context: ssl.SSLContext, ca: Path, seconds: float) -> dict[str, tuple[float, float]]:
    found = {
        "TLS handshakes/s, CPU us each": rate(
            contender, partial(one_handshake, contender.ports["SSL"], context), seconds
        ),
        "SCRAM logins/s, CPU us each": rate(contender, partial(one_login, contender.ports["SASL_PLAINTEXT"]), seconds),
    }
    for protocol in ("PLAINTEXT", "SASL_SSL"):
        found[f"{protocol} MB/s produced, consumed"] = throughput(contender, protocol, ca)
    with silence(contender.ports["SSL"]):
        found[f"beside {SILENT} silent connections, ms: p99, longest"] = _waits(contender, seconds)
    found["without them"] = _waits(contender, seconds)
    return found


def _waits(contender: Contender, seconds: float) -> tuple[float, float]:
    found = waits(contender.port, seconds)
    return statistics.quantiles(found, n=100)[-1], max(found)


def add_user(contender: Contender) -> None:
    credential = UserScramCredentialUpsertion(USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), PASSWORD)
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{contender.port}"})
    admin.alter_user_scram_credentials([credential])[USER].result(30)
    time.sleep(1)  # until Kafka's own listener knows it


def main() -> None:
    parser = arguments("python -m benchmarks.security", __doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as running:
        folder = Path(name)
        make_certificates(name, (), (), time.time_ns() // 1_000_000)
        context = ssl.create_default_context(cafile=folder / "ca.pem")
        protocols = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
        measured = contenders(options.kafka, options.alone, settings(folder), protocols)
        passes: dict[str, list[dict[str, tuple[float, float]]]] = {each.name: [] for each in measured}
        for contender in measured:
            running.enter_context(serving(contender))
            add_user(contender)
            one_pass(contender, context, folder / "ca.pem", 1.0)  # warms up
        for _ in range(options.rounds):
            for contender in measured:
                passes[contender.name].append(one_pass(contender, context, folder / "ca.pem", options.seconds))
    report(passes)


def report(passes: dict[str, Sequence[dict[str, tuple[float, float]]]] | Any) -> None:
    for row in next(iter(passes.values()))[0]:
        for name, found in passes.items():
            first, second = (statistics.median(values) for values in zip(*(each[row] for each in found), strict=True))
            sys.stdout.write(f"{row}, {name}: {first:,.1f}, {second:,.1f}\n")


if __name__ == "__main__":
    main()
