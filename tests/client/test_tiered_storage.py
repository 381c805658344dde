"""Stock clients and tiered storage, over sockets: a consumer reads from the first offset on what is local no longer."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

from odradek import Broker
from tests.brokers import sound_broker
from tests.command_line import Odradek
from tests.doubles.s3_server import s3_server

QUICK = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "rsm.config.chunk.size": "100000",
    "odradek.http.port": "0",
}
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": str(1 << 20),
    "local.retention.bytes": "1",
    "retention.ms": "-1",
    "file.delete.delay.ms": "0",
}
COUNT, SIZE = 3000, 1000


@pytest.fixture(scope="module", params=["folder", "s3"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if request.param == "folder":
        store = {"rsm.config.dir": str(tmp_path_factory.mktemp("remote"))}
        with sound_broker({**QUICK, **store, "remote.log.storage.manager.class.name": "folder"}) as found:
            yield found
        return
    with s3_server() as (_, address):
        store = {
            "rsm.config.storage.s3.bucket.name": "archive",
            "rsm.config.storage.s3.endpoint.url": address,
            "rsm.config.storage.s3.region": "us-east-1",
            "rsm.config.storage.s3.path.style.access.enabled": "true",
            "rsm.config.storage.aws.access.key.id": "key",
            "rsm.config.storage.aws.secret.access.key": "secret",
        }
        with sound_broker({**QUICK, **store, "remote.log.storage.manager.class.name": "s3"}) as found:
            yield found


def fill(broker: Broker, topic: str) -> None:
    """Transactions, every third aborted; return once all but the active segment is in remote storage alone."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1, config=TIERED)])[topic].result(30)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"of-{topic}", "linger.ms": 5}
    )
    producer.init_transactions(30)
    for first in range(0, COUNT, 300):
        producer.begin_transaction()
        for number in range(first, first + 300):
            producer.produce(topic, b"%d " % number + b"x" * SIZE)
        producer.flush(30)
        if first % 900 == 0:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    deadline = time.monotonic() + 60
    while not is_local_no_longer(broker, topic) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert is_local_no_longer(broker, topic), metrics(broker)


def metrics(broker: Broker) -> str:
    with urlopen(f"http://127.0.0.1:{broker.http_port}/metrics") as answer:
        page: str = answer.read().decode()
    return page


def is_local_no_longer(broker: Broker, topic: str) -> bool:
    """Whether only the active segment is left here."""
    return f'kafka_log_log_numlogsegments{{partition="0",topic="{topic}"}} 1.0' in metrics(broker)


def committed() -> list[int]:
    return [number for number in range(COUNT) if number // 300 % 3]


def test_consumers_read_tiered_records_from_the_beginning(broker: Broker) -> None:
    fill(broker, "t")
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "confluent",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["t"])
    found: list[int] = []
    deadline = time.monotonic() + 60
    while len(found) < len(committed()) and time.monotonic() < deadline:
        for message in consumer.consume(500, 1):
            assert message.error() is None
            found.append(int((message.value() or b"").split()[0]))
    consumer.close()
    assert found == committed()

    reader = KafkaConsumer(
        "t",
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=3000,
        enable_auto_commit=False,
        group_id=None,
    )
    values = [int(message.value.split()[0]) for message in reader]
    reader.close()
    assert values == list(range(COUNT))


def test_metrics_of_tiered_storage_are_there(broker: Broker) -> None:
    page = metrics(broker)
    assert re.search(r'\nkafka_server_brokertopicmetrics_remotecopybytes_total{topic="t"} [1-9]', page)
    assert re.search(r"\nkafka_server_brokertopicmetrics_remotefetchbytes_total [1-9]", page)
    assert 'kafka_server_brokertopicmetrics_remotelogsizebytes{topic="t"}' in page


def test_the_command_line_tells_of_tiered_storage(broker: Broker) -> None:
    odradek = Odradek(broker.bootstrap_servers)
    status, out, _ = odradek.run("tier", "status", "t")
    assert status == 0
    assert "t-0: offsets 0 to" in out
    status, out, _ = odradek.run("tier", "verify")
    assert status == 0
    assert "segments looked for" in out
