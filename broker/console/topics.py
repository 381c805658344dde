"""The list of topics; and one topic: its partitions, its configuration, and what keeps its readers from reading."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from broker.authorization.console_table import EVERYTHING, SIZES
from broker.config.describe import ConfigEntry, ConfigSource, describe_topic
from broker.console import formats
from broker.console.ask import Ask, Values, allowed
from broker.console.charts import Chart, Frame, chart, frame_of
from broker.console.history import SAMPLE_MS
from broker.console.sizes import sizes_at
from broker.console.tables import Column, arranged, numbers, order_of, texts
from broker.testkit.control.endpoint import ControlError
from broker.testkit.control.topics import topic_of
from broker.testkit.explain import explain_topic
from broker.testkit.inspection.partitions import PartitionView, read_partitions, read_topics
from metadata.acls import ResourceType
from metadata.image import MetadataImage
from metadata.topics import PartitionRegistration, TopicImage
from protocol.topic_partition import PartitionKey

TOPICS_ON_A_PAGE = 50


async def topics(ask: Ask) -> Values:
    image, part, with_internal = ask.node.cluster.cache.image, ask.text("q"), ask.text("internal") == "yes"
    found = await asyncio.to_thread(_matching, image, part.lower(), with_internal)

    async def rows_of(names: list[str]) -> list[dict[str, Any]]:
        partitions = await read_topics(ask.node, names)
        of_topic: dict[str, list[PartitionView]] = {name: [] for name in names}
        for one in partitions.values():
            of_topic[one.topic].append(one)
        sizes = await _sizes(ask, partitions.values())
        return [_row(ask, image.topics.by_name[name], of, sizes) for name, of in of_topic.items()]

    names = await allowed(ask.rights, "metadata", ResourceType.TOPIC, found)
    order, shown, rows = await arranged(ask, _columns(image), names, TOPICS_ON_A_PAGE, rows_of)
    return {"order": order, "paging": shown, "rows": rows, "q": part, "internal": with_internal}


def _columns(image: MetadataImage) -> list[Column]:
    by_name = image.topics.by_name
    return [
        texts("name", "Topic", of=str),
        numbers("partitions", "Partitions", of=lambda name: by_name[name].partition_count),
        numbers("replicas", "Replicas", of=lambda name: by_name[name].replication_factor),
        numbers("records", "Records"),
        numbers("bytes", "Size"),
        numbers("bytes_in", "Produced here"),
        texts("cleanup", "Cleanup"),
    ]


def _matching(image: MetadataImage, part: str, with_internal: bool) -> list[str]:
    """The names with this part, in order; any thread."""
    return sorted(
        topic.name for topic in image.topics if part in topic.name.lower() and (with_internal or not topic.is_internal)
    )


async def _sizes(ask: Ask, partitions: Iterable[PartitionView]) -> Mapping[PartitionKey, int]:
    """How large they are at their leaders, as far as these tell it, and the user may be told."""
    if not ask.rights.allow(SIZES, ResourceType.CLUSTER):
        return {}
    wanted = ((one.leader, (one.topic, one.partition)) for one in partitions if one.has_leader)
    return {key: size for (_, key), size in (await sizes_at(ask, wanted)).items()}


def _row(
    ask: Ask, topic: TopicImage, partitions: Sequence[PartitionView], sizes: Mapping[PartitionKey, int]
) -> dict[str, Any]:
    """Records and sizes are those of all leaders; what was produced, of the partitions that this node leads."""
    node, rights = ask.node, ask.rights
    has_records = rights.allow("list_offsets", ResourceType.TOPIC, topic.name)
    is_configured = rights.allow("describe_configs", ResourceType.TOPIC, topic.name)
    leads = any(one.leader == node.node_id for one in partitions) and rights.allow(SIZES, ResourceType.CLUSTER)
    of_each = [sizes.get((one.topic, one.partition)) for one in partitions]
    known = [size for size in of_each if size is not None]
    counters = node.local.metrics.topics.get(topic.name)
    return {
        "name": topic.name,
        "internal": topic.is_internal,
        "partitions": topic.partition_count,
        "replicas": topic.replication_factor,
        "records": sum(one.end - one.start for one in partitions)
        if has_records and all(one.is_known for one in partitions)
        else None,
        "bytes": sum(known) if len(known) == len(of_each) else None,
        "bytes_in": (counters.bytes_in if counters else 0) if leads else None,
        "cleanup": node.cluster.cache.topic_configs(topic.name).get("cleanup.policy", "delete")
        if is_configured
        else None,
    }


PARTITIONS_ON_A_PAGE = 100

CONFIG_SOURCES = {1: "this topic", 2: "this broker", 3: "all brokers", 4: "this broker's file", 5: "(default)"}
CONFIGS = [
    texts("name", "Name", lambda one: one.name),
    texts("value", "Value", lambda one: one.value),
    texts("source", "Set for", lambda one: CONFIG_SOURCES[one.source]),
]


def _partition_columns(found: TopicImage) -> list[Column]:
    registered = found.partitions
    return [
        numbers("index", "Partition", of=int),
        numbers("leader", "Leader", of=lambda index: registered[index].leader),
        texts("replicas", "Replicas", of=lambda index: registered[index].replicas),
        texts("isr", "In sync", of=lambda index: registered[index].isr),
        numbers("start", "First offset"),
        numbers("stable", "Last stable"),
        numbers("end", "End"),
        numbers("bytes", "Size"),
        numbers("segments", "Segments"),
        numbers("open", "Open transactions"),
    ]


def seen_topic(ask: Ask, parameter: str) -> TopicImage:
    """The topic that is asked for. Raises ControlError if there is none, or the user lacks the page's rights."""
    name = ask.name(parameter)
    ask.rights.check_needed(ask.given)
    if ask.rights.allow(SIZES, ResourceType.CLUSTER):
        return topic_of(ask.node, name)
    found = ask.node.cluster.cache.topic(name)
    if found is None:
        raise ControlError(f"there is no topic {name!r}", parameter=parameter, status=404)
    return found


async def topic(ask: Ask) -> Values:
    found = seen_topic(ask, "name")

    async def rows_of(indexes: list[int]) -> list[dict[str, Any]]:
        views = await read_partitions(ask.node, [(found.name, index) for index in indexes])
        sizes = await _sizes(ask, views.values())
        keys = [(found.name, index) for index in indexes]
        return [
            _partition_row(ask, views[key], found.partitions[key[1]], sizes.get(key)) for key in keys if key in views
        ]

    indexes = list(range(found.partition_count))
    order, shown, rows = await arranged(ask, _partition_columns(found), indexes, PARTITIONS_ON_A_PAGE, rows_of)
    frame = frame_of(ask)
    configs, by_config = _configs(ask, found.name), order_of(ask, CONFIGS, "configs")
    return {
        "title": found.name,
        "topic": found.name,
        "id": str(found.id),
        "internal": found.is_internal,
        "partition_count": found.partition_count,
        "frame": frame,
        "charts": _charts(ask, found.name, frame) if ask.rights.allow(SIZES, ResourceType.CLUSTER) else None,
        "order": order,
        "paging": shown,
        "rows": rows,
        "by_config": by_config,
        "configs": None if configs is None else by_config.sort(configs),
        "sources": CONFIG_SOURCES,
        "findings": await explain_topic(ask.node, found.name)
        if ask.rights.allow(EVERYTHING, ResourceType.CLUSTER)
        else None,
    }


def _charts(ask: Ask, name: str, frame: Frame) -> list[Chart]:
    """What was produced to the partitions that this node leads, and fetched from them."""
    kept = ask.history.topic(name)
    found = []
    for title, counts, shown in (
        ("Messages in, per second", kept.messages_in, formats.count),
        ("Bytes in, per second", kept.bytes_in, formats.size),
        ("Bytes out, per second", kept.bytes_out, formats.size),
    ):
        rates = [
            (at_ms, max(after - before, 0) * 1000 / max(at_ms - before_ms, 1))
            for (before_ms, at_ms), (before, after) in zip(pairwise(kept.at_ms), pairwise(counts), strict=True)
        ]
        found.append(chart(title, rates, shown, frame, SAMPLE_MS))
    return found


def _configs(ask: Ask, name: str) -> list[ConfigEntry] | None:
    """Those that are set for the topic come first; None for a user who may not see them."""
    if not ask.rights.allow("describe_configs", ResourceType.TOPIC, name):
        return None
    configs = describe_topic(ask.node.local.config, dict(ask.node.cluster.cache.topic_configs(name)))
    return sorted(configs, key=lambda one: (one.source is not ConfigSource.TOPIC, one.name))


def _partition_row(ask: Ask, one: PartitionView, registered: PartitionRegistration, size: int | None) -> dict[str, Any]:
    """How many files its log has is known of those that this node leads."""
    node, rights = ask.node, ask.rights
    has_offsets = one.is_known and rights.allow("list_offsets", ResourceType.TOPIC, one.topic)
    has_producers = one.is_known and rights.allow("describe_producers", ResourceType.TOPIC, one.topic)
    led = node.replicas.get(one.topic, one.partition) if one.leader == node.node_id else None
    led = led if rights.allow(SIZES, ResourceType.CLUSTER) else None
    return {
        "index": one.partition,
        "leader": registered.leader,
        "epoch": registered.leader_epoch,
        "replicas": list(registered.replicas),
        "isr": list(registered.isr),
        "start": one.start if has_offsets else None,
        "stable": one.stable if has_offsets else None,
        "end": one.end if has_offsets else None,
        "bytes": size,
        "segments": None if led is None else len(led.log.segments),
        "open": len(one.open_producers) if has_producers else None,
    }
