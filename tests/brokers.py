"""Brokers that tests start, each a process of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from odradek import Broker


@contextmanager
def sound_broker(settings: Mapping[str, object] | None = None) -> Iterator[Broker]:
    """A broker that must not have met a bug by the end of the block: each writes a traceback to its log."""
    with Broker(settings) as broker:
        yield broker
        log = broker.log()
    assert "Traceback" not in log, log
