"""Take a real Apache Kafka through `producer_steps` and write its answers to `kafka_producers.json`.

Run by hand from the repository's root: `python -m tools.recorders.ask_kafka_producers 127.0.0.1:19092`.
"""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.write_txn_markers.v1 import request as markers_request
from kio.schema.write_txn_markers.v1 import response as markers_response
from kio.serial import entity_reader

from tests.unit.storage.producers.producer_steps import ANSWERS, FIRST_PRODUCER_ID, Marker, steps
from tools.recorders.ask_kafka import Client, encode


def send_marker(client: Client, topic: str, marker: Marker) -> int:
    request = markers_request.WriteTxnMarkersRequest(
        markers=(
            markers_request.WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.epoch,
                transaction_result=marker.commit,
                topics=(markers_request.WritableTxnMarkerTopic(name=topic, partition_indexes=(0,)),),
                coordinator_epoch=marker.coordinator_epoch,
            ),
        )
    )
    body = client.call(27, 1, encode(markers_request.WriteTxnMarkersRequest, request), flexible=True)
    answer, _ = entity_reader(markers_response.WriteTxnMarkersResponse)(body, 0)
    return int(answer.markers[0].topics[0].partitions[0].error_code)


def main(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    topic = f"producers-{int(time.time())}"
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result()
    time.sleep(0.5)
    client = Client(address)
    now = int(time.time() * 1000)
    answers: list[list[int]] = []
    for step in steps(FIRST_PRODUCER_ID):
        if isinstance(step, Marker):
            answers.append([send_marker(client, topic, step)])
        else:
            answer = client.produce(topic, step.batch(now))
            answers.append([int(answer.error_code), int(answer.base_offset)])
    ANSWERS.write_text(json.dumps(answers) + "\n")
    sys.stdout.write(f"{len(answers)} answers, codes {sorted({answer[0] for answer in answers})}\n")


if __name__ == "__main__":
    main(sys.argv[1])
