"""Ask a real Apache Kafka in which order it lists groups and transactions, and write it to `kafka_listings.json`.

Run by hand, with a Kafka that has just been started, once for each number of partitions that is to be in the file:

    kafka start 19092 offsets.topic.num.partitions=50 transaction.state.log.num.partitions=50
    python -m tests.recorders.ask_kafka_listings 127.0.0.1:19092 50
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from tests.conformance.wire import Wire
from tests.unit.broker.listings import ANSWERS, COUNTS, NAMES, join_of

NO_FILTERS: dict[str, Any] = {"state_filters": [], "producer_id_filters": []}


def accepted(wire: Wire, api: str, version: int, body: dict[str, Any]) -> None:
    """Asked until there is a coordinator."""
    while not wire.call(api, version, body)["error_code"].startswith("0"):
        key_type = 1 if "transactional_id" in body else 0
        wire.call("find_coordinator", 4, {"key_type": key_type, "coordinator_keys": [NAMES[0]]})
        time.sleep(0.5)


def main(address: str, partitions: str) -> None:
    host, _, port = address.rpartition(":")
    wire = Wire(host, int(port))
    groups: list[list[int]] = []
    transactions: list[list[int]] = []
    for count, name in enumerate(NAMES, 1):
        accepted(wire, "join_group", 2, join_of(name))
        accepted(wire, "init_producer_id", 1, {"transactional_id": name, "transaction_timeout": 60_000})
        if count in COUNTS:
            time.sleep(1)  # a group whose record is not committed yet is not listed
            listed = wire.call("list_groups", 0, {})["groups"]
            groups.append([NAMES.index(one["group_id"]) for one in listed])
            assert len(listed) == count
            found = wire.call("list_transactions", 0, NO_FILTERS)["transaction_states"]
            transactions.append([NAMES.index(one["transactional_id"]) for one in found])
    answers = json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
    answers[partitions] = {"groups": groups, "transactions": transactions}
    ANSWERS.write_text(json.dumps(answers, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
