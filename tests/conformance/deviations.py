"""Where Odradek answers otherwise than Kafka on purpose. docs/compatibility.md lists the same, with the reasons."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Deviation(NamedTuple):
    api: str
    scenario: str
    steps: tuple[str, ...]  # beginnings of step names
    accepts: Callable[[Any, Any], bool]  # (Kafka's answer, ours), both normalised
    reason: str


def answered(_: Any, got: Any) -> bool:
    """Any answer at all, as against silence or a close."""
    return isinstance(got, dict)


def closed(_: Any, got: Any) -> bool:
    return bool(got == "closed")


def same_but_text(expected: Any, got: Any) -> bool:
    """Alike when both give a message, each in its own words."""
    return bool(_wordless(expected) == _wordless(got))


def _wordless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: "<text>" if k == "error_message" and v else _wordless(v) for k, v in value.items()}
    return [_wordless(item) for item in value] if isinstance(value, list) else value


DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "produce",
        "null_records",
        ("null records",),
        answered,
        "Kafka never answers a Produce whose records are null; here the partition gets INVALID_RECORD.",
    ),
    Deviation(
        "alter_configs",
        "alters",
        ("resource twice",),
        answered,
        "Kafka never answers an AlterConfigs that names a resource twice; here both get INVALID_REQUEST.",
    ),
    Deviation(
        "describe_configs",
        "other_resources",
        ("type ",),
        same_but_text,
        "Kafka's stock sentence for INVALID_REQUEST is given in other words.",
    ),
    Deviation(
        "frames",
        "bodies",
        ("array length -2", "string that is not UTF-8", "compact array far too long", "produce: records of length -5"),
        closed,
        "Kafka takes any negative length for null and replaces bytes that are not UTF-8; here such a request, which no "
        "client sends, closes its connection like other malformed ones.",
    ),
    Deviation("frames", "headers", ("client id length -2",), closed, "As above: a negative length other than -1."),
)


def excused(api: str, scenario: str, step: str, expected: Any, got: Any) -> bool:
    """Whether a listed deviation covers this answer."""
    return any(
        (d.api, d.scenario) == (api, scenario) and step.startswith(d.steps) and d.accepts(expected, got)
        for d in DEVIATIONS
    )
