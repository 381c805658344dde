"""Where Odradek answers otherwise than Kafka on purpose. docs/compatibility.md lists the same, with the reasons."""

from typing import Any, NamedTuple


class Deviation(NamedTuple):
    api: str
    scenario: str
    step: str
    accepts: Any  # judges Odradek's normalised answer; Kafka's own is accepted too
    reason: str


def answered(got: Any) -> bool:
    """Any answer at all, as against silence or a close."""
    return isinstance(got, dict)


DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "produce",
        "null_records",
        "null records",
        answered,
        "Kafka never answers; here the partition gets INVALID_RECORD.",
    ),
)


def excused(api: str, scenario: str, step: str, got: Any) -> bool:
    """Whether a listed deviation covers this answer."""
    return any((d.api, d.scenario, d.step) == (api, scenario, step) and d.accepts(got) for d in DEVIATIONS)
