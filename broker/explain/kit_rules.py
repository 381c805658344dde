"""Rules about what the test itself has done to the broker."""

from __future__ import annotations

from broker.explain.finding import Finding, Findings, Severity
from broker.inspection.kit import KitView


def a_fault_is_set(kit: KitView) -> Findings:
    for fault in kit.faults:
        yield Finding(
            Severity.WARNING,
            "a_fault_is_set",
            f"a fault of the test is set: {fault}",
            "Remove it: broker.clear_faults().",
        )


def clock_is_frozen(kit: KitView) -> Findings:
    if kit.clock_is_frozen:
        yield Finding(
            Severity.WARNING,
            "clock_is_frozen",
            "the broker's clock is frozen: no session, rebalance, transaction or long poll times out",
            "Let it go on: broker.clock.resume().",
        )


RULES = (a_fault_is_set, clock_is_frozen)
