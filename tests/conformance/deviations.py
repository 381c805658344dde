"""Where Odradek answers otherwise than Kafka on purpose. docs/compatibility.md lists the same, with the reasons."""

from typing import NamedTuple


class Deviation(NamedTuple):
    api: str
    scenario: str
    step: str  # "" for all of the scenario's steps
    reason: str


DEVIATIONS: tuple[Deviation, ...] = ()


def is_known(api: str, scenario: str, version: int, step: str) -> bool:
    """Whether a difference at this step is one of the listed deviations."""
    return any((d.api, d.scenario) == (api, scenario) and d.step in ("", step) for d in DEVIATIONS)
