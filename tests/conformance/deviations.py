"""Where Odradek answers differently from Kafka on purpose. docs/compatibility.md lists these too."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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


def answered_with(*parts: str) -> Callable[[Any, Any], bool]:
    """Whether the answer has one of these errors in it, or these words of JSON."""
    return lambda _, got: any(part in json.dumps(got) for part in parts)


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


UNKNOWN = "-1 UNKNOWN_SERVER_ERROR"

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
    *(
        Deviation(
            "produce",
            name,
            ("",),
            answered_with("42 INVALID_REQUEST", "0 NONE"),
            "A Produce that names a partition twice is refused; Kafka takes the last of its batches.",
        )
        for name in ("twice_in_one_request", "twice_and_malformed")
    ),
    *(
        Deviation(
            "produce",
            name,
            ("codec ", "too large and codec 7"),
            answered_with(UNKNOWN, "10 MESSAGE_TOO_LARGE", "87 INVALID_RECORD", "2 CORRUPT_MESSAGE"),
            "An unknown compression is refused as in newer versions; Kafka looks for it first before version 7.",
        )
        for name in ("compression", "too_large", "what_is_behind")
    ),
    Deviation(
        "random_walks",
        "walk",
        ("14 produce 6",),
        answered_with(UNKNOWN),
        "As above: its compression is unknown.",
    ),
    *(
        Deviation(
            "fetch",
            name,
            ("less than no bytes", "partition max -1", "max bytes -1"),
            answered_with("0 NONE"),
            "A limit below 0 is one of 0: the first batch comes. Kafka fails.",
        )
        for name in ("odd", "sizes")
    ),
    Deviation(
        "fetch",
        "odd",
        ("unknown isolation level",),
        answered_with("42 INVALID_REQUEST"),
        "An unknown isolation level is refused, whatever else the request says.",
    ),
    Deviation(
        "fetch",
        "unknown_places",
        ("zero id or empty name, then an unknown", "an unknown partition, then zero id or empty name"),
        answered_with("100 UNKNOWN_TOPIC_ID"),
        "The zero id is an unknown one; Kafka fails if something follows it.",
    ),
    Deviation(
        "alter_user_scram_credentials",
        "altered_scram_users",
        ("an empty password",),
        answered_with("93 UNACCEPTABLE_CREDENTIAL"),
        "An empty password is refused as such; Kafka's cryptography fails.",
    ),
    Deviation(
        "describe_topic_partitions",
        "partitions",
        ("invalid ''",),
        answered_with("17 INVALID_TOPIC"),
        "An empty name is invalid; Kafka fails.",
    ),
)


WRONG_REQUESTS: Mapping[str, tuple[str, ...]] = {
    "create_delegation_token": ("new_tokens",),
    "describe_share_group_offsets": ("share_offsets_told",),
    "fetch": ("odd", "offsets"),
    "list_offsets": ("places_and_duplicates", "unknown_isolation_level"),
    "metadata": ("by_id", "id_among_names"),
    "offset_fetch": ("for_consumers",),
    "share_fetch": ("share_record_limit",),
    "streams_group_heartbeat": ("streams_topologies",),
    "write_txn_markers": ("of_nobody", "writes"),
}
"""The scenarios with a request that makes Kafka throw, by API; elsewhere its UNKNOWN_SERVER_ERROR is the contract."""


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
    is_for_a_wrong_request = scenario in WRONG_REQUESTS.get(api, ()) and names_what_is_wrong(expected, got)
    return is_for_a_wrong_request or any(
        (d.api, d.scenario) == (api, scenario) and step.startswith(d.steps) and d.accepts(expected, got)
        for d in DEVIATIONS
    )
