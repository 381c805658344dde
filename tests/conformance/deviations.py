"""Where Odradek answers differently from Kafka on purpose. docs/compatibility.md lists these too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Deviation(NamedTuple):
    api: str
    scenario: str
    steps: tuple[str, ...]  # beginnings of step names
    accepts: Callable[[Any, Any], bool]  # (Kafka's answer, ours), both normalised
    reason: str


def answered(_: Any, got: Any) -> bool:
    """Whether there is any answer at all, rather than silence or a closed connection."""
    return isinstance(got, dict)


def same_but_synonyms(expected: Any, got: Any) -> bool:
    return bool(_without_synonyms(expected) == _without_synonyms(got))


def _without_synonyms(value: Any) -> Any:
    if isinstance(value, dict):
        of_node_id = value.get("name") == "node.id"
        return {k: _without_synonyms(v) for k, v in value.items() if not (of_node_id and k == "synonyms")}
    return [_without_synonyms(item) for item in value] if isinstance(value, list) else value


def same_but_empty_ranges(expected: Any, got: Any) -> bool:
    return bool(_without_empty_ranges(expected) == _without_empty_ranges(got))


def _without_empty_ranges(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_empty_ranges(one) for key, one in value.items()}
    if not isinstance(value, list):
        return value
    whole = [
        one for one in value if not isinstance(one, dict) or one.get("last_offset", 0) >= one.get("first_offset", 0)
    ]
    return [_without_empty_ranges(one) for one in whole]


DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "produce",
        "null_records",
        ("null records",),
        answered,
        "Kafka never answers a Produce whose records are null; here the partition gets INVALID_RECORD.",
    ),
    Deviation(
        "update_features",
        "features",
        ("twice, the last one right",),
        answered,
        "It names the metadata.version of Kafka 4.1, which is a downgrade here.",
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
        "brokers",
        ("keys with synonyms",),
        same_but_synonyms,
        "node.id has a default here (1), so it is among its synonyms.",
    ),
    Deviation(
        "join_group",
        "subscriptions",
        ("a name cut short", "words"),
        answered,
        "Kafka never answers the members of a group one of whose subscriptions gives an impossible length; here such a "
        "JoinGroup is refused with INVALID_REQUEST.",
    ),
    Deviation(
        "share_fetch",
        "share_batch_sizes",
        ("batch size 0", "batch size -"),
        same_but_empty_ranges,
        "With a batch size below 1, Kafka names an empty range of acquired records beside the others.",
    ),
    Deviation("join_group", "subscriptions_cut_short", ("user data cut short",), answered, "As above."),
)


UNKNOWN = "-1 UNKNOWN_SERVER_ERROR"


def names_what_is_wrong(expected: Any, got: Any) -> bool:
    """Whether the answers are the same, but that ours has an error of its own where Kafka fails unexpectedly.

    A request that is wrong, such as one with an unknown isolation level, makes Kafka throw; here it is INVALID_REQUEST.
    """
    if expected == UNKNOWN:
        return got in (UNKNOWN, "42 INVALID_REQUEST")
    if isinstance(expected, dict) and isinstance(got, dict):
        return expected.keys() == got.keys() and all(
            key == "error_message" or names_what_is_wrong(value, got[key]) for key, value in expected.items()
        )
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(map(names_what_is_wrong, expected, got))
    return bool(expected == got)


def excused(api: str, scenario: str, step: str, expected: Any, got: Any) -> bool:
    """Whether a listed deviation covers this answer."""
    return names_what_is_wrong(expected, got) or any(
        (d.api, d.scenario) == (api, scenario) and step.startswith(d.steps) and d.accepts(expected, got)
        for d in DEVIATIONS
    )
