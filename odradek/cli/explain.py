"""`odradek explain group|topic|transaction NAME -b HOST:PORT`: of any Kafka what a client can know, of ours all.

Here it is asked what the rules (`explain_rules.py`) need to know.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec, ResourceType
from kafka import TopicPartition as PythonTopicPartition
from kafka.errors import ClusterAuthorizationFailedError, IncompatibleBrokerVersion, KafkaError

from odradek import explain_rules as rules
from odradek.cli import transactions
from odradek.cli.connection import TargetCluster
from odradek.cli.group_kinds import COMMITTING, KINDS, kind_of, listed
from odradek.cli.kafka_python import require_no_error
from odradek.cli.messages import ExplainRequest
from odradek.cli.output import Output, print_explanation
from odradek.explain_rules import Key, SeenPartition
from odradek.report import Explanation, Finding


def explain(cluster: TargetCluster, out: Output, kind: str, name: str) -> None:
    """Print why nothing is read of a group, topic or transaction. Raises Exit with status 1 if there is a problem."""
    groups = listed(cluster, out) if kind == "group" else {}
    findings, why_not = _told_by_broker(cluster, kind, name, is_group=name in groups)
    if findings is None:
        if kind == "group":
            seen = _group(cluster, name, groups)
        else:
            seen = _topic(cluster, name) if kind == "topic" else _transaction(cluster, out, name)
        found = [*seen, Finding("info", "seen_by_a_client", why_not, "")]
        findings = rules.in_order(found)
    print_explanation(out, Explanation.of(kind, name, findings))


def _told_by_broker(
    cluster: TargetCluster, kind: str, name: str, *, is_group: bool
) -> tuple[list[Finding] | None, str]:
    """Return what a broker of ours finds; None, and why there is only what a client can know.

    The coordinator of a group knows most of it. To look for that of no group would make the topic of groups.
    """
    with cluster.python_admin() as admin:
        try:
            node = admin._manager.run(admin._find_coordinator_id, name) if is_group else None
            answer = admin._manager.run(admin._manager.send, ExplainRequest(kind=kind, name=name), node)
            require_no_error(answer)
        except IncompatibleBrokerVersion:
            return None, "this is what a client can know: the broker does not explain anything itself"
        except ClusterAuthorizationFailedError:
            return None, "this is what a client can know: what the broker knows it tells who has ALTER on the cluster"
    return [Finding(finding.severity, finding.rule, finding.text, finding.advice) for finding in answer.findings], ""


def _group(cluster: TargetCluster, name: str, known: Mapping[str, Mapping[str, Any]]) -> Iterable[Finding]:
    if name not in known:
        return rules.ask(rules.GROUP_RULES, rules.SeenGroup(name, "", "", {}, {}, {}, [*known]))
    kind = kind_of(known[name])
    rows, read = KINDS.get(kind, COMMITTING).members(cluster, name)
    members = {
        f"member {row['member']} (client {row['client'] or '-'} at {row['host'].lstrip('/')})": _keys(
            row.get("assigned", ())
        )
        for row in rows
    }
    committed: Mapping[Key, int] = {} if kind == "share" else _committed(cluster, name)
    partitions = _partitions(cluster, {topic for topic, _ in (*committed, *read)})
    state = known[name].get("group_state") or "Unknown"
    return rules.ask(rules.GROUP_RULES, rules.SeenGroup(name, kind, state, members, committed, partitions))


def _topic(cluster: TargetCluster, name: str) -> Iterable[Finding]:
    existing = cluster.admin().list_topics(timeout=cluster.timeout).topics
    partitions = [*_partitions(cluster, [name]).values()]
    least = _least_in_sync(cluster, name) if partitions else None
    return rules.ask(rules.TOPIC_RULES, rules.SeenTopic(name, partitions, least, [*existing]))


def _transaction(cluster: TargetCluster, out: Output, name: str) -> Iterable[Finding]:
    existing = [entry.transactional_id for entry in transactions.listed(cluster, out)]
    if name not in existing:
        return rules.ask(rules.TRANSACTION_RULES, rules.SeenTransaction(name, "", existing=existing))
    with cluster.python_admin() as admin:
        found = admin.describe_transactions([name])[name]
    return rules.ask(
        rules.TRANSACTION_RULES,
        rules.SeenTransaction(
            name,
            found.state.value,
            max(time.time() - found.transaction_start_time_ms / 1000, 0),
            found.transaction_timeout_ms / 1000,
            [f"{place.topic}-{place.partition}" for place in found.topic_partitions],
        ),
    )


def _keys(names: Iterable[str]) -> list[Key]:
    """Partitions of names such as orders-0."""
    return [(topic, int(number)) for topic, _, number in (name.rpartition("-") for name in names)]


def _committed(cluster: TargetCluster, group: str) -> dict[Key, int]:
    found = cluster.admin().list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
    return {(place.topic, place.partition): place.offset for place in found.topic_partitions if place.offset >= 0}


def _partitions(cluster: TargetCluster, topics: Collection[str]) -> dict[Key, SeenPartition]:
    """All partitions of those topics that exist, with their offsets."""
    metadata = cluster.admin().list_topics(timeout=cluster.timeout).topics
    known = {
        (topic, partition.id): partition
        for topic in sorted(topics)
        if topic in metadata and metadata[topic].error is None
        for partition in metadata[topic].partitions.values()
    }
    led = [key for key, one in known.items() if one.leader >= 0]
    start = _offsets(cluster, led, OffsetSpec.earliest())
    end = _offsets(cluster, led, OffsetSpec.latest())
    stable = _offsets(cluster, led, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
    holders = _holders(cluster, [key for key, offset in stable.items() if offset < end.get(key, offset)])
    return {
        key: SeenPartition(
            *key,
            one.leader if one.leader >= 0 else None,
            one.replicas,
            one.isrs,
            start.get(key),
            stable.get(key),
            end.get(key),
            holders.get(key, ""),
        )
        for key, one in sorted(known.items())
    }


def _offsets(cluster: TargetCluster, keys: Iterable[Key], spec: Any, isolation: Any = None) -> dict[Key, int]:
    """Of the partitions whose leader tells them."""
    wanted = {TopicPartition(*key): spec for key in keys}
    if not wanted:
        return {}
    more = {} if isolation is None else {"isolation_level": isolation}
    found = {}
    for one, future in cluster.admin().list_offsets(wanted, **more).items():
        try:
            found[one.topic, one.partition] = future.result().offset
        except KafkaException:  # the offsets of that one are not told
            continue
    return found


def _holders(cluster: TargetCluster, keys: Iterable[Key]) -> dict[Key, str]:
    """Find whose transactions hold the partitions, as far as the cluster says."""
    wanted = [PythonTopicPartition(*key) for key in keys]
    if not wanted:
        return {}
    with cluster.python_admin() as admin:
        try:
            names = {
                one.producer_id: one.transactional_id for each in admin.list_transactions().values() for one in each
            }
            found = admin.describe_producers(wanted)
        except KafkaError:  # older brokers, or no right
            return {}
    return {
        (at.topic, at.partition): ", ".join(
            f"the transaction of transactional id {names.get(producer.producer_id, '(unknown)')}"
            for producer in about.active_producers
            if producer.current_transaction_start_offset >= 0
        )
        for at, about in found.items()
    }


def _least_in_sync(cluster: TargetCluster, topic: str) -> int | None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        found = cluster.admin().describe_configs([resource])[resource].result()
    except KafkaException:  # it takes another right
        return None
    entry = found.get("min.insync.replicas")
    return None if entry is None or entry.value is None else int(entry.value)
