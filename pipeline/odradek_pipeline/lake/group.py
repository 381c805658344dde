"""Progress as a consumer group's offsets: tools that show a group's lag show the lake's.

The group has no member. Its offsets are set with the Admin API after each batch, for others to look at: the job itself
goes on from its checkpoint. So a failure to set them is a warning.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

import structlog

from odradek_pipeline.kafka import Admin, ClusterError

logger = structlog.get_logger(__name__)

PREFIX = "odradek-lake-"
AGAIN_SECONDS = 6 * 3600.0
"""Unchanged offsets are set again after this time: brokers forget those of a group without members after a week."""


def default_name(whole_path: str) -> str:
    """The group of a lake: `odradek-lake-` and its path, without file system and with `-` for `/`."""
    return PREFIX + re.sub(r"^\w+:/*", "", whole_path).strip("/").replace("/", "-")


class GroupProgress:
    """Sets the offsets of a group, unless they are what was set last. An empty name: of no group."""

    def __init__(self, admin: Admin, group: str) -> None:
        self._admin = admin
        self._group = group
        self._set: dict[str, tuple[Mapping[int, int], float]] = {}
        self._told = ""

    def reached(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Everything of a topic before these offsets, by partition, is in the tables."""
        before, when = self._set.get(topic, ({}, 0.0))
        now = time.monotonic()
        if not self._group or not offsets or (offsets == before and now < when + AGAIN_SECONDS):
            return
        try:
            self._admin.set_group_offsets(self._group, topic, offsets)
        except ClusterError as error:
            if self._told != str(error):
                self._told = str(error)
                logger.warning(
                    "offsets of the group not set", group=self._group, topic=topic, error=_advice(self._told)
                )
        else:
            self._set[topic] = (dict(offsets), now)
            self._told = ""


def _advice(error: str) -> str:
    if "UnknownMemberId" in error:
        return f"{error}; the group has members, so it is in use: give another --group"
    if "AuthorizationException" in error:
        return f"{error}; allow READ of the group and of the topic, or give --group ''"
    return error
