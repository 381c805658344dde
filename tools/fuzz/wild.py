"""Values of a field's kind for `fuzz`, whether they make sense or not."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from tests.conformance import schema
from tools.fuzz.symbols import LONGEST, NOBODYS, Held, Named, Time


@dataclass(slots=True)
class Wild:
    """`wild` is how often a value is drawn from all that there are, instead of those that make sense."""

    rng: random.Random
    wild: float

    def one(self, *values: Any) -> Any:
        return self.rng.choice(values)

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def mixed(self, told: dict[str, Any], drawn: dict[str, Any]) -> dict[str, Any]:
        """The fields of `told` that this version has; now and then one is what was drawn for it."""
        often = 1 - self.wild / 4
        return {name: told[name] if name in told and self.chance(often) else value for name, value in drawn.items()}

    def plain_value(self, f: schema.Field) -> Any:
        """A field that nothing above knows."""
        match f.kind:
            case "bool":
                return self.chance(0.5)
            case "string":
                return self.one("", "x", "yy")
            case "bytes":
                return self.one(b"", b"abc")
            case "uuid":
                return Held("topic_id", "a", schema.NO_ID)
            case "uint16":
                return self.one(0, 1)
            case _:
                return self.one(0, 1, -1)

    def any_value(self, api: str, f: schema.Field) -> Any:
        match f.kind:
            case "bool":
                return self.chance(0.5)
            case "uuid":
                return self.one(Held("topic_id", "a", schema.NO_ID), Held("topic_id", "b", schema.NO_ID),
                                schema.NO_ID, "f" * 32)  # fmt: skip
            case "bytes":
                return self.one(b"", b"abc", b"\0\0\0\0")
            case "string":
                return self.any_text(f.name)
            case _:
                return self._number(api, f)

    def any_text(self, name: str) -> Any:
        if name in ("member_id",):
            return self.one("", "nobody", Held("member", self.one("g1/0", "g1/1", "g2/0"), ""))
        if name in ("groups", "groups_names"):
            return self.one(Named("g1"), Named("nogroup"))  # the group of no name may be anybody's
        if "group" in name:
            return self.one(Named("g1"), Named("g2"), Named("nogroup"), "")
        if "transactional_id" in name:
            return self.one(Named("tx1"), Named("tx2"), Named("notx"), "")
        if name == "value":
            return self.one("1", "-1", "zip", "", "abc", " 5 ", "compact,delete")
        if name == "configuration_keys":
            return self.one("nonsense", "", "Retention.ms", "retention.ms")
        if name in ("topic", "name", "topic_name", "topics", "resource_name"):
            return self.one(Named("a"), Named("b"), Named("missing"), Named("c"), "", "a b", ".", "x" * 250,
                            Named(LONGEST), "caf\u00e9")  # fmt: skip
        return self.one("", "x", "\u00e9", "bogus", "consumer", Named("a"))

    def _number(self, api: str, f: schema.Field) -> Any:
        if f.name in ("max_wait", "timeout") and api in ("fetch", "produce"):
            return self.one(0, -1, 10)
        if f.name == "timeout":
            return self.one(0, -1, 5000, 2147483647)
        if f.name in ("session_timeout", "rebalance_timeout"):
            return self.one(60_000, 0, -1, 5999, 6000, 1_800_000, 1_800_001, 2147483647)
        if f.name == "transaction_timeout":
            return self.one(0, -1, 60_000, 900_000, 900_001, 2147483647)
        if f.name.endswith("producer_id"):
            return self.one(-2, -1, NOBODYS, 2**63 - 1)
        if f.name in ("num_partitions", "count"):
            return self.one(-2, -1, 0, 1, 2, 3)
        if f.name == "timestamp":
            return self.one(-6, -7, 0, 9_000_000_000_000_000, Time(-1))
        if f.name == "acks":
            return self.one(0, 2, -2)
        if f.name == "resource_type":
            return self.one(0, 1, 4, 8, 16, 32, 99, -1)
        if f.name == "resource_types":
            return self.one(0, 2, 4, 8, 16, 32, 99, -1)
        if f.kind == "uint16":
            return self.one(0, 1, 9092, 65_535)
        largest = {"int8": 127, "int16": 32_767, "int64": 2**63 - 1}.get(f.kind, 2**31 - 1)
        return self.one(-2, -1, 0, 1, 2, 3, 5, 99, largest)
