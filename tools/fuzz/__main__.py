"""The same random requests to Apache Kafka and to Odradek; prints what they answer differently.

python -m tools.fuzz --kafka 127.0.0.1:19092 --bootstrap 127.0.0.1:9092 --seeds 0-100 [--only fetch,produce]
"""

from __future__ import annotations

import json
import random
import re
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click

from protocol.api.table import API_TABLE
from tests.conformance import transcripts
from tests.conformance.runner import ODD_HOURS_AGO_MS
from tools.fuzz import share_consumers, streams_members
from tools.fuzz.bodies import Draw
from tools.fuzz.damage import KINDS, Damage
from tools.fuzz.known import known
from tools.fuzz.side import Side
from tools.fuzz.symbols import TOPICS, Named

VERSIONS = {api.name: range(api.lowest, api.highest + 1) for api in API_TABLE}
NOT_ASKED = ("alter_client_quotas", "update_features", "get_telemetry_subscriptions", "push_telemetry", "api_versions",
             "unregister_broker", "add_raft_voter")  # fmt: skip
"""Those that change the whole cluster or end it, or say what differs on purpose."""
THEMES = (
    ("produce", "produce", "fetch", "list_offsets", "delete_records", "offset_for_leader_epoch", "describe_producers"),
    ("produce", "produce", "init_producer_id", "add_partitions_to_txn", "add_partitions_to_txn", "end_txn", "end_txn",
     "describe_transactions", "list_transactions", "write_txn_markers", "fetch", "list_offsets", "describe_producers"),
    ("add_offsets_to_txn", "txn_offset_commit", "txn_offset_commit", "end_txn", "init_producer_id", "offset_fetch",
     "offset_commit", "offset_delete", "delete_groups", "describe_transactions"),
    ("join_group", "join_group", "join_group", "sync_group", "sync_group", "heartbeat", "leave_group", "offset_commit",
     "offset_fetch", "describe_groups", "list_groups", "delete_groups", "offset_delete", "txn_offset_commit"),
    (*5 * ("consumer_group_heartbeat",), "consumer_group_describe", "offset_commit", "offset_fetch", "create_topics",
     "delete_topics", "create_partitions", "describe_groups", "list_groups", "delete_groups", "offset_delete"),
    (*6 * ("consumer_group_heartbeat",), "consumer_group_describe", "join_group", "join_group", "sync_group",
     "sync_group", "heartbeat", "leave_group", "offset_commit", "txn_offset_commit", "describe_groups"),
    ("create_topics", "delete_topics", "create_partitions", "metadata", "describe_configs", "alter_configs",
     "incremental_alter_configs", "describe_topic_partitions", "produce", "fetch"),
    (*2 * (share_consumers.HEARTBEAT,), *6 * (share_consumers.FETCH,), *3 * (share_consumers.ACKNOWLEDGE,), "produce",
     "produce", "describe_share_group_offsets", "share_group_describe", "incremental_alter_configs", "delete_records"),
    (*2 * (share_consumers.HEARTBEAT,), *3 * (share_consumers.FETCH,), share_consumers.ACKNOWLEDGE, "list_groups",
     "describe_share_group_offsets", "alter_share_group_offsets", "delete_share_group_offsets", "share_group_describe",
     "delete_groups", "delete_topics", "create_topics", "offset_commit", "offset_fetch", "consumer_group_heartbeat"),
    ("initialize_share_group_state", "read_share_group_state", "write_share_group_state", "write_share_group_state",
     "delete_share_group_state", "read_share_group_state_summary"),
    (*8 * (streams_members.HEARTBEAT,), *2 * (streams_members.DESCRIBE,), streams_members.DESCRIPTION, "list_groups",
     "offset_commit", "offset_fetch", "incremental_alter_configs", "delete_groups", "create_topics", "delete_topics"),
)  # fmt: skip
"""What a conversation is about: a request is one of these; the more often named, the more often asked."""
FOLLOWING = {
    "join_group": ("join_group", "sync_group"),
    "sync_group": ("heartbeat", "offset_commit", "join_group", "describe_groups"),
    "consumer_group_heartbeat": (*3 * ("consumer_group_heartbeat",), "consumer_group_describe", "offset_commit"),
    share_consumers.HEARTBEAT: (*3 * (share_consumers.FETCH,), share_consumers.HEARTBEAT),
    share_consumers.FETCH: (*3 * (share_consumers.FETCH,), *2 * (share_consumers.ACKNOWLEDGE,), "produce"),
    share_consumers.ACKNOWLEDGE: (share_consumers.FETCH, "describe_share_group_offsets"),
    streams_members.HEARTBEAT: (*4 * (streams_members.HEARTBEAT,), streams_members.DESCRIBE, "offset_commit"),
    "init_producer_id": ("add_partitions_to_txn", "add_offsets_to_txn", "produce"),
    "add_partitions_to_txn": ("produce",),
    "add_offsets_to_txn": ("txn_offset_commit",),
    "txn_offset_commit": ("end_txn",),
    "produce": ("produce", "end_txn", "fetch"),
    "end_txn": ("add_partitions_to_txn", "fetch", "init_producer_id"),
    "fetch": ("fetch",),
}
"""What a client would go on with."""
ONLY_TELLING = tuple(api for api in VERSIONS if re.match("describe_|list_|offset_fetch|metadata|.*_describe$", api))
SHORTLY = 0.4
STEPS = 25
MADE = ("a", "b", "c", "d")
KNOWN = "a listed deviation"


def whole_state(apis: Sequence[str]) -> list[tuple[str, int, dict[str, Any]]]:
    """Requests that tell what a session has left behind."""
    everything = [
        {"partition": p, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for p in range(max(TOPICS.values()))
    ]
    indexes = list(range(max(TOPICS.values())))
    fetch: dict[str, Any] = {"max_wait": 0, "min_bytes": 0, "session_epoch": -1, "max_bytes": 1 << 20, "replica_id": -1}
    topics = [Named(name) for name in TOPICS]
    return [
        ("metadata", 9, {"topics": [{"name": Named(n)} for n in MADE], "allow_auto_topic_creation": False}),
        ("describe_configs", 4, {"resources": [{"resource_type": 2, "resource_name": t} for t in topics]}),
        *(
            ("fetch", 11, fetch | {"isolation_level": level, "topics": [{"topic": t, "partitions": everything}]})
            for level in (0, 1)
            for t in topics
        ),
        ("describe_producers", 0, {"topics": [{"name": t, "partition_indexes": indexes} for t in topics]}),
        ("describe_transactions", 0, {"transactional_ids": [Named("tx1"), Named("tx2")]}),
        ("describe_groups", 5, {"groups": [Named("g1"), Named("g2")]}),
        ("consumer_group_describe", 1, {"group_ids": [Named("g1"), Named("g2")]}),
        ("offset_fetch", 8, {"groups": [{"group_id": Named(g), "topics": None} for g in ("g1", "g2")]}),
        *(share_consumers.whole_state() if share_consumers.HEARTBEAT in apis else ()),
        *(streams_members.whole_state() if streams_members.HEARTBEAT in apis else ()),
    ]


class Session:
    """One seed's conversation; ends at the first difference, as later ones may follow from it."""

    def __init__(
        self, seed: int, kafka: tuple[str, int], ours: tuple[str, int], only: tuple[str, ...], verbose: bool
    ) -> None:
        self.rng = random.Random(seed)
        self.verbose = verbose
        t0 = int(time.time() * 1000) - ODD_HOURS_AGO_MS
        ours_prefix = kafka_prefix = f"z{secrets.token_hex(4)}-"
        if kafka == ours:  # shows which differences are noise
            ours_prefix = f"z{secrets.token_hex(4)}-"
        everything = tuple(name for name in VERSIONS if name not in NOT_ASKED)
        self.apis = only or self.rng.choice((*THEMES, *THEMES, everything, everything))
        wild = self.rng.choice((0.01, 0.03, 0.1, 0.3))
        self.draw = Draw(self.rng, wild, self.apis)
        self.sides = Side(*kafka, kafka_prefix, t0, self.apis), Side(*ours, ours_prefix, t0, self.apis)
        self.asked: Counter[str] = Counter()
        self.well: Counter[str] = Counter()

    def play(self, pool: ThreadPoolExecutor) -> str | None:
        """The first difference, told; None if there is none."""
        try:
            list(pool.map(Side.prepare, self.sides))
            api = ""
            for step in range(STEPS):
                api = self._next(api)
                version = self.rng.choice(VERSIONS[api])
                damage = (
                    Damage(self.rng.choice(KINDS), self.rng.random())
                    if self.rng.random() < self.draw.wild / 4
                    else None
                )
                if told := self._step(pool, f"step {step}", api, version, self.draw.body(api, version), damage):
                    return told
            for api, version, body in whole_state(self.apis):
                if told := self._step(pool, "after all", api, version, body, None):
                    return told
            return None
        finally:
            list(pool.map(Side.end, self.sides))

    def _next(self, last: str) -> str:
        following = [api for api in FOLLOWING.get(last, ()) if api in self.apis]
        return self.rng.choice(following if following and self.rng.random() < 0.5 else self.apis)

    def _step(
        self, pool: ThreadPoolExecutor, step: str, api: str, version: int, body: dict[str, Any], damage: Damage | None
    ) -> str | None:
        self.asked[api] += 1
        hurt = f" {damage}" if damage else ""
        told = f"{step} {api} v{version}{hurt} {json.dumps(self.sides[0].readable(body), default=str)}"
        expected, got = pool.map(lambda side: side.ask(api, version, body, damage), self.sides)
        if expected != got and api in ONLY_TELLING:
            time.sleep(SHORTLY)  # it may have been on its way
            expected, got = pool.map(lambda side: side.ask(api, version, body, damage), self.sides)
        if self.verbose:
            click.echo(f"{told}\n  = {json.dumps(expected)[:400]}")
        without_error = " NONE" in str(expected) and not errors(expected)
        self.well[api] += without_error
        told_first = self.sides[0]
        self.draw.settled(
            without_error=without_error,
            epochs=told_first.epochs,
            joined=told_first.joined,
            held=told_first.held,
        )
        lines = transcripts.differences(expected, got)
        if not lines:
            return None
        if known(api, self.sides[0].resolve(body), damage, expected, got):
            return KNOWN
        shown = json.dumps(self.sides[0].readable(body), default=str)
        hurt = f" {damage}" if damage else ""
        return "\n".join(
            [f"{step} {api} v{version}{hurt} {shown[:1500]}", *(f"    {line[:500]}" for line in lines[:8])]
        )


def errors(answer: Any) -> bool:
    """Whether any error code in the answer tells one."""
    if isinstance(answer, dict):
        return any((k == "error_code" and v != "0 NONE") or errors(v) for k, v in answer.items())
    return isinstance(answer, list) and any(errors(item) for item in answer)


def address(text: str) -> tuple[str, int]:
    host, port = text.rsplit(":", 1)
    return host, int(port)


@click.command()
@click.option("--kafka", default="127.0.0.1:19092", show_default=True, help="A Kafka 4.4 as for `record`.")
@click.option("--bootstrap", default="127.0.0.1:9092", show_default=True, help="The broker to compare with it.")
@click.option("--seeds", default="0-20", show_default=True, help="Which conversations, as FIRST-LAST.")
@click.option("--only", default="", help="APIs, with commas between.")
@click.option("--verbose", is_flag=True, help="Show every request, and Kafka's answer.")
def main(kafka: str, bootstrap: str, seeds: str, only: str, verbose: bool) -> None:
    asked: Counter[str] = Counter()
    well: Counter[str] = Counter()
    differing = cut_short = 0
    with ThreadPoolExecutor(2) as pool:
        for seed in transcripts.expand(seeds):
            session = Session(seed, address(kafka), address(bootstrap), tuple(filter(None, only.split(","))), verbose)
            try:
                told = session.play(pool)
            except TimeoutError as slow:
                click.echo(f"--- seed {seed} given up: {slow}")
                continue
            asked += session.asked
            well += session.well
            if told == KNOWN:
                cut_short += 1
            elif told:
                differing += 1
                click.echo(f"--- seed {seed} {told}")
    told_of = ", ".join(f"{api} {well[api]} of {count}" for api, count in sorted(asked.items()))
    click.echo(f"{asked.total()} requests, of these without an error: {told_of}")
    click.echo(f"{differing} conversations differ, {cut_short} met a listed deviation")
    raise SystemExit(1 if differing else 0)


if __name__ == "__main__":
    main()
