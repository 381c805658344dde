"""How long a small client waits beside heavy work of others: `python -m benchmarks.stall --help`.

The small client asks for the versions of the APIs, a request every 2 ms, on a connection of its own. Meanwhile a second
process does what the row is about; `--rows NAME...` chooses rows, a few words about each are in `benchmarks/stalls/`.
`quiet` has nothing beside the client: what the rest of the machine costs. Each row has brokers of its own: one, or a
cluster of three, which Apache Kafka's controller leads for Kafka and our own for Odradek; there each broker and our
controller have a small client, and the longest wait of all counts. Printed are the 99th percentile and the longest of
the small client's waits, in ms: the median of the passes, and of a work that ends by itself one pass.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import signal
import socket
import statistics
import struct
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path

from benchmarks import cluster
from benchmarks.contenders import Contender, arguments, contenders, serving
from benchmarks.many_partitions import end
from benchmarks.stalls import attacks, batches, clusters, logs, many_topics
from benchmarks.stalls.row import SECONDS, Place, Row, Subject
from odradek import Cluster
from tests.client import kafka_node

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
PAUSE_S = 0.002
AFTERWARDS_S = 0.3


def nothing(_place: Place, begun: Event, ended: Event) -> None:
    begun.set()
    ended.wait()


ROWS = {
    row.name: row
    for row in (
        Row("quiet", nothing),
        *batches.ROWS,
        *attacks.ROWS,
        *many_topics.ROWS,
        *logs.ROWS,
        *clusters.ROWS,
    )
}


class OneBroker:
    def __init__(self, contender: Contender) -> None:
        self.name = contender.name
        self._contender = contender

    def place(self) -> Place:
        one = self._contender
        return Place((one.port,), (one.pid(),), (one.port,), one.folder, one.http_port)

    def restart(self, meanwhile: Callable[[], None]) -> None:
        end(self._contender.pid(), signal.SIGTERM)
        meanwhile()
        self._contender.start()


class ThreeBrokers:
    def __init__(self, name: str, brokers: dict[int, int], controller: int | None = None) -> None:
        """The process of each broker by its port, and the controller's port."""
        self.name = name
        self._brokers = brokers
        self._controllers = () if controller is None else (controller,)

    def place(self) -> Place:
        ports = tuple(self._brokers)
        return Place(ports, tuple(self._brokers.values()), (*ports[:-1], *self._controllers), Path(), 0)

    def restart(self, meanwhile: Callable[[], None]) -> None:
        raise NotImplementedError("no row starts a cluster anew")


@contextlib.contextmanager
def our_cluster(row: Row) -> Iterator[ThreeBrokers]:
    with Cluster(row.brokers, row.settings, profile="kafka") as ours:
        ports = {_port(broker.bootstrap_servers): broker.pid for broker in ours.brokers}
        yield ThreeBrokers("odradek", ports, _port(ours.controller.bootstrap_servers))


@contextlib.contextmanager
def kafka_cluster(row: Row) -> Iterator[ThreeBrokers]:
    with cluster.running("kafka", 0, row.brokers, row.settings) as theirs:
        yield ThreeBrokers("kafka", {_port(each.address): each.pid for each in theirs.brokers.values()})


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


@contextlib.contextmanager
def subjects(row: Row, script: str, *, alone: bool) -> Iterator[list[Subject]]:
    """Odradek and, unless it is to run alone, Apache Kafka, as the row needs them."""
    with contextlib.ExitStack() as stack:
        if row.brokers > 1:
            found: list[Subject] = [stack.enter_context(our_cluster(row))]
            if not alone and not row.is_ours and not kafka_node.missing():
                found.append(stack.enter_context(kafka_cluster(row)))
        else:
            measured = contenders(script, alone or row.is_ours, row.settings)
            found = [OneBroker(stack.enter_context(serving(one))) for one in measured]
        yield found


def waits(port: int, seconds: float, is_over: Callable[[], bool] = lambda: False) -> list[float]:
    """How long each request of the small client took, in ms; a little after it is over the client ends."""
    found: list[float] = []
    with connected(port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        until = time.perf_counter() + seconds
        while (now := time.perf_counter()) < until:
            if is_over():
                until = min(until, now + AFTERWARDS_S)
            began = time.perf_counter()
            connection.sendall(API_VERSIONS)
            size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
            connection.recv(size, socket.MSG_WAITALL)
            found.append((time.perf_counter() - began) * 1e3)
            time.sleep(PAUSE_S)
    return found


def watch(port: int, ready: Event, begun: Event, ended: Event, seconds: float, found: Queue[list[float]]) -> None:
    """Be a small client while the work is done; put how long each request took."""
    gc.disable()
    ready.set()
    begun.wait(SECONDS)
    found.put(waits(port, seconds, ended.is_set))


def connected(port: int) -> socket.socket:
    """A connection, as soon as the port is open."""
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.005)


def do(name: str, place: Place, begun: Event, ended: Event) -> None:
    """Do the work of a row; if it fails, nobody waits for it."""
    try:
        ROWS[name].work(place, begun, ended)
    finally:
        begun.set()
        ended.set()


def one_pass(row: Row, subject: Subject, seconds: float) -> tuple[float, float]:
    """The 99th percentile and the longest of the waits, in ms."""
    place = subject.place()
    spawning = multiprocessing.get_context("spawn")
    begun, ended, found = spawning.Event(), spawning.Event(), spawning.Queue()
    clients = []
    for port in place.watched:
        ready = spawning.Event()
        limit = SECONDS if row.ends else seconds
        clients.append(spawning.Process(target=watch, args=(port, ready, begun, ended, limit, found)))
        clients[-1].start()
        ready.wait(30)
    worker = spawning.Process(target=do, args=(row.name, place, begun, ended))
    if row.restarts:
        subject.restart(worker.start)
    else:
        worker.start()
    waits = [found.get(timeout=SECONDS + 60) for _ in clients]
    ended.set()
    for process in (*clients, worker):
        process.join(SECONDS)
    if worker.exitcode:
        sys.exit(f"{row.name}, {subject.name}: the work failed")
    return max(statistics.quantiles(each, n=100)[-1] for each in waits), max(map(max, waits))


def main() -> None:
    parser = arguments("python -m benchmarks.stall", __doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW", help=", ".join(ROWS))
    options = parser.parse_args()
    for row in (ROWS[name] for name in options.rows):
        with subjects(row, options.kafka, alone=options.alone) as measured:
            figures: dict[str, list[tuple[float, float]]] = {subject.name: [] for subject in measured}
            for subject in measured:
                row.prepare(subject)
                figures[subject.name].append(one_pass(row, subject, options.seconds))
            for _ in range(0 if row.ends else options.rounds - 1):
                for subject in measured:
                    figures[subject.name].append(one_pass(row, subject, options.seconds))
        for name, passes in figures.items():
            p99, longest = (statistics.median(values) for values in zip(*passes, strict=True))
            sys.stdout.write(f"{row.name}, {name}: p99 {p99:.1f} ms, longest {longest:.1f} ms\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
