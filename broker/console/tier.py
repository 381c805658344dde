"""Tiered storage: of each partition what is in remote storage and what is local, as its leader says (KIP-405).

Leaders are asked by ListOffsets, so those of Apache Kafka tell it, too. What may be wrong is said of this broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from operator import itemgetter
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from broker.authorization.console_table import EVERYTHING
from broker.config.resource_configs import topic_value
from broker.console.ask import Ask, Values, allowed
from broker.console.own_client import answers_of, by_broker
from broker.console.tables import arranged, numbers, texts
from metadata.acls import ResourceType
from metadata.configs import ResourceType as Configured
from protocol.topic_partition import PartitionKey, by_topic

ON_A_PAGE = 50
TIMEOUT = timedelta(seconds=5)
CLIENT = -1
FIRST, END, LOCAL, COPIED = -2, -1, -4, -5
"""What ListOffsets is asked for in place of a time."""

Offsets = Mapping[tuple[PartitionKey, int], int]
"""By partition and what was asked for; what a leader does not tell is left out."""

COLUMNS = (
    texts("partition", "Partition", of=itemgetter(0)),
    numbers("leader", "Leader", lambda row: row["leader"]),
    numbers("first", "First offset", lambda row: row["first"]),
    numbers("copied", "In remote storage up to", lambda row: row["copied"]),
    numbers("local", "Local from", lambda row: row["local"]),
    numbers("end", "End", lambda row: row["end"]),
)


async def tier(ask: Ask) -> Values:
    image, own = ask.node.cluster.cache.image, ask.node.tier
    configs = image.configs
    tiered = [
        one.name for one in image.topics if topic_value(configs.of(Configured.TOPIC, one.name), "remote.storage.enable")
    ]
    leaders: dict[PartitionKey, int] = {}
    for name in await allowed(ask.rights, "list_offsets", ResourceType.TOPIC, sorted(tiered)):
        if (topic := image.topics.get(name)) is not None:
            leaders |= {(name, index): state.leader for index, state in topic.in_order()}

    async def rows_of(part: list[PartitionKey]) -> list[dict[str, Any]]:
        told = await _offsets(ask, {key: leaders[key] for key in part})
        return [_row(key, leaders[key], told) for key in part]

    order, shown, rows = await arranged(ask, COLUMNS, list(leaders), ON_A_PAGE, rows_of)
    found = []
    if own is not None and ask.rights.allow(EVERYTHING, ResourceType.CLUSTER):
        from broker.tiering.inspection import tier_status

        found = [one for one in tier_status(own, "") if one.severity != "info"]
    return {"order": order, "paging": shown, "rows": rows, "is_on": own is not None, "found": found}


def _row(key: PartitionKey, leader: int, told: Offsets) -> dict[str, Any]:
    names = {"first": FIRST, "copied": COPIED, "local": LOCAL, "end": END}
    offsets = {name: told.get((key, which)) for name, which in names.items()}
    return {"topic": key[0], "partition": key[1], "leader": leader if leader >= 0 else None, **offsets}


async def _offsets(ask: Ask, leaders: Mapping[PartitionKey, int]) -> Offsets:
    """What the leaders tell; one that does not answer is left out."""
    at = by_broker((leader, key) for key, leader in leaders.items() if leader >= 0)
    asked = [(broker, which) for broker in at for which in (FIRST, END, LOCAL, COPIED)]
    told = await answers_of(ask, [(broker, _request(at[broker], which)) for broker, which in asked])
    return {
        ((topic.name, one.partition_index), which): one.offset
        for (_, which), answer in zip(asked, told, strict=True)
        if answer is not None
        for topic in answer.topics
        for one in topic.partitions
        if one.error_code is ErrorCode.none and one.offset >= 0
    }


def _request(keys: Sequence[PartitionKey], which: int) -> ListOffsetsRequest:
    topics = tuple(
        ListOffsetsTopic(
            name=name,
            partitions=tuple(
                ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=which)
                for index in indexes
            ),
        )
        for name, indexes in by_topic(keys).items()
    )
    return ListOffsetsRequest(replica_id=CLIENT, isolation_level=0, topics=topics, timeout=TIMEOUT)
