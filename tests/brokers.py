"""Brokers that tests start, each a process of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from odradek import Broker
from odradek.security import Users


@contextmanager
def sound_broker(
    settings: Mapping[str, object] | None = None, security: str | None = None, users: Users | None = None
) -> Iterator[Broker]:
    """A broker with Kafka's settings that must not have met a bug by the end: each writes a traceback to its log."""
    with Broker(settings, profile="dev", security=security, users=users) as broker:
        yield broker
        log = broker.log()
    assert "Traceback" not in log, log
