"""What differs between two brokers that answer alike, taken out: addresses, ids, times, names of this run."""

from __future__ import annotations

import time
from typing import Any

from tests.conformance import batches, schema
from tests.conformance.contract import TEXTS, in_one_order

_SESSION_LIKE = {"session_id": "S", "producer_id": "P", "subscription_id": "SUB", "client_instance_id": "CLIENT"}
_TIMES = {
    "log_append_time",
    "timestamp",
    "base_timestamp",
    "max_timestamp",
    "last_timestamp",
    "transaction_start_time",
}
_SIZES = {"total_bytes", "usable_bytes", "finalized_features_epoch"}


class Normaliser:
    """One run of one scenario. Symbols are given by first appearance: the same value is the same symbol throughout."""

    def __init__(self, prefix: str, host: str, port: int, t0_ms: int) -> None:
        self.prefix, self.host, self.port, self.t0_ms = prefix, host, port, t0_ms
        self.ids: dict[str, str] = {}
        self._symbols: dict[tuple[str, Any], str] = {}

    def name_id(self, topic_id: str, symbol: str) -> None:
        """Make `topic_id` (32 hex digits) appear as <symbol>."""
        self.ids[topic_id] = f"<{symbol}>"

    def name_producer(self, producer_id: int) -> None:
        """Make `producer_id` appear as a symbol in batches too."""
        self._symbol("P", producer_id)

    def __call__(self, answer: Any, *, unordered: tuple[str, ...] = (), ignore: tuple[str, ...] = ()) -> Any:
        return self._walk(answer, "", unordered, ignore)

    def _walk(self, value: Any, key: str, unordered: tuple[str, ...], ignore: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            return {
                k: self._walk(v, k, unordered, ignore)
                for k, v in value.items()
                if k not in ignore and k != "throttle_time"
            }
        if isinstance(value, list):
            items = [self._walk(item, key, unordered, ignore) for item in value]
            return in_one_order(items) if key in unordered else items
        if isinstance(value, bytes):
            return self._walk(batches.describe(value), "records", (), ignore)
        return self._leaf(key, value)

    def _leaf(self, key: str, value: Any) -> Any:
        if key in _SESSION_LIKE:
            return self._symbol(_SESSION_LIKE[key], value)
        if key == "pid":
            return self._symbols.get(("P", value), value)
        if key == "topic_id" and value != schema.NO_ID:
            return self.ids.setdefault(value, f"<id {len(self.ids) + 1}>")
        if key in _TIMES and isinstance(value, int):
            return self.time(value)
        if key in TEXTS:
            return value and "<text>"
        if key in _SIZES:
            return "<n>" if value > 0 else value
        match key:
            case "host":
                return "<host>" if value == self.host else value
            case "port":
                return "<port>" if value == self.port else value
            case "cluster_id":
                return value and "<cluster>"
            case "log_dir":
                return "<log dir>"
        return self.text(value) if isinstance(value, str) else value

    def _symbol(self, letter: str, value: Any) -> Any:
        if value in (0, -1, schema.NO_ID) and not (letter == "P" and value == 0):
            return value
        count = sum(1 for kind, _ in self._symbols if kind == letter)
        return self._symbols.setdefault((letter, value), f"<{letter}{count + 1}>")

    def time(self, ms: int) -> Any:
        """Scenario times are told from the run's start; the broker's own clock is <now>."""
        if abs(ms - self.t0_ms) < 500_000:
            return f"t0{ms - self.t0_ms:+d}"
        if abs(ms - time.time() * 1000) < 600_000:
            return "<now>"
        if abs(ms - self.t0_ms) < 1_000_000_000:
            return f"t0{(ms - self.t0_ms) / 3.6e6:+.1f}h"
        return ms

    def text(self, text: str) -> str:
        return text.replace(self.prefix, "~")
