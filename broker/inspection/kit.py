"""What a test has done to the node: faults that are set, and the clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.node import Node


@dataclass(frozen=True, slots=True)
class KitView:
    """`faults` has a sentence for each one that may still strike. `clock_is_frozen`: no timer fires."""

    faults: Sequence[str] = ()
    clock_is_frozen: bool = False


def read_kit(node: Node) -> KitView:
    return KitView()
