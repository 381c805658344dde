"""What the console's history notes of groups: their lags, as often as it asks. Loaded when there is a group."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from broker.console.history import MOST_GROUPS, Lags
from broker.node import Node
from broker.testkit.inspection.cluster import read_group
from broker.testkit.inspection.groups import GroupView, list_summaries
from broker.testkit.inspection.partitions import read_lags


async def note_lags(node: Node, kept: OrderedDict[str, Lags]) -> None:
    """Note the lags of groups that somebody has looked at here, and of those that this node coordinates.

    Raises KafkaError.
    """
    own = [one.group_id for one in await list_summaries(node.coordinators.groups)]
    for group_id in own[: MOST_GROUPS - len(kept)]:
        if group_id not in kept:
            kept[group_id] = Lags()
    answers = await asyncio.gather(*(read_group(node, one) for one in kept), return_exceptions=True)
    groups = [one for one in answers if isinstance(one, GroupView)]  # of others the next time, then
    for group, lags in zip(groups, await read_lags(node, groups, patience_ms=0), strict=True):
        known = {(one.topic, one.partition): one.lag for one in lags if one.lag is not None}
        if not group.exists:
            kept.pop(group.group_id, None)
        elif group.group_id in kept and not any(one.unknown for one in lags):
            kept[group.group_id].add(known)
        await asyncio.sleep(0)  # a group may have thousands of partitions
