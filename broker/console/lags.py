"""The lags of groups, for the console's history. Loaded when there is a group, as it loads what reads groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from broker.node import Node
from broker.testkit.inspection import read_group
from broker.testkit.inspection.groups import GroupView, list_summaries
from broker.testkit.inspection.partitions import read_lags
from protocol.topic_partition import PartitionKey

GroupLags = dict[str, dict[PartitionKey, int] | None]
"""By group, its lags by partition; None if the group is gone. One of which something is unknown is left out."""


async def lags_of_groups(node: Node, looked_at: Sequence[str], most: int) -> GroupLags:
    """Read the lags of these groups and of those that this node coordinates, of so many at most. Raises KafkaError."""
    own = [one.group_id for one in await list_summaries(node.coordinators.groups)]
    wanted = list(dict.fromkeys((*looked_at, *own[: most - len(looked_at)])))
    answers = await asyncio.gather(*(read_group(node, one) for one in wanted), return_exceptions=True)
    groups = [one for one in answers if isinstance(one, GroupView)]  # of others the next time, then
    found: GroupLags = {}
    for group, lags in zip(groups, await read_lags(node, groups, patience_ms=0), strict=True):
        if not group.exists:
            found[group.group_id] = None
        elif not any(one.unknown for one in lags):
            found[group.group_id] = {(one.topic, one.partition): one.lag for one in lags if one.lag is not None}
        await asyncio.sleep(0)  # a group may have thousands of partitions
    return found
