"""ApiVersions 0-4, and every request at a version just outside what is served."""

from __future__ import annotations

import struct
from typing import Any

from tests.conformance import schema
from tests.conformance.runner import Talk, scenario
from tests.conformance.wire import header

OUTSIDE = (
    "produce",
    "fetch",
    "list_offsets",
    "metadata",
    "api_versions",
    "create_topics",
    "delete_topics",
    "init_producer_id",
    "add_partitions_to_txn",
    "add_offsets_to_txn",
    "end_txn",
    "write_txn_markers",
    "txn_offset_commit",
    "describe_producers",
    "describe_transactions",
    "list_transactions",
    "offset_for_leader_epoch",
    "describe_configs",
    "alter_configs",
    "alter_replica_log_dirs",
    "describe_log_dirs",
    "create_partitions",
    "elect_leaders",
    "incremental_alter_configs",
    "alter_partition_reassignments",
    "list_partition_reassignments",
    "update_features",
    "describe_cluster",
    "get_telemetry_subscriptions",
    "push_telemetry",
    "list_config_resources",
    "describe_topic_partitions",
    "sasl_handshake",
    "describe_acls",
    "create_acls",
    "delete_acls",
    "sasl_authenticate",
    "create_delegation_token",
    "renew_delegation_token",
    "expire_delegation_token",
    "describe_delegation_token",
    "describe_client_quotas",
    "alter_client_quotas",
    "describe_user_scram_credentials",
    "describe_quorum",
    "unregister_broker",
    "unregister_controller",
    "share_group_heartbeat",
    "share_group_describe",
    "share_fetch",
    "share_acknowledge",
    "add_raft_voter",
    "remove_raft_voter",
    "initialize_share_group_state",
    "read_share_group_state",
    "write_share_group_state",
    "delete_share_group_state",
    "read_share_group_state_summary",
    "describe_share_group_offsets",
    "alter_share_group_offsets",
    "delete_share_group_offsets",
    "streams_group_heartbeat",
    "streams_group_describe",
    "update_raft_voter",
)
"""Asked in versions just outside those that Kafka serves; none of the last three is served."""


def own(answer: dict[str, Any]) -> Any:
    """The APIs in the order told."""
    if "api_keys" in answer:
        answer["api_keys"] = [[a["api_key"], a["min_version"], a["max_version"]] for a in answer["api_keys"]]
    for key in ("supported_features", "finalized_features"):
        if key in answer:
            answer[key] = sorted(answer[key], key=lambda f: f["name"])
    return answer


@scenario("api_versions", range(0, 5))
def versions(t: Talk, v: int) -> None:
    def ask(step: str, name: str = "judge", number: str = "1.0") -> None:
        t.call(step, "api_versions", v, {"client_software_name": name, "client_software_version": number}, pick=own)

    ask("plain")
    ask("again on the same connection")
    for name in ("", "a b", "-a", "a-", ".a", "a.b-c", "a_b", "é", "a" * 300):
        ask(f"name {name[:5]!r} of {len(name)}", name)
        ask(f"version {name[:5]!r} of {len(name)}", "judge", name)


@scenario("api_versions", (0,))
def versions_too_new(t: Talk, v: int) -> None:
    for number in (5, 6, 100, 32767):
        body = header(18, number, 7, "judge", True) + b"\x06judge\x041.0\x00"
        _raw(t, f"version {number}", body, 7)
        _raw(t, f"version {number}, no body", header(18, number, 8, "judge", False), 8)
    _raw(t, "version -1", header(18, -1, 9, "judge", False), 9)
    _raw(t, "version 0, v2 header", header(18, 0, 10, "judge", True), 10)
    _raw(t, "version 3, v1 header", header(18, 3, 11, "judge", False) + b"\x06judge\x041.0\x00", 11)
    _raw(t, "version 3, no body", header(18, 3, 12, "judge", True), 12)
    _raw(t, "version 0, null client id", header(18, 0, 13, None, False), 13)
    _raw(t, "version 0, empty client id", header(18, 0, 14, "", False), 14)
    _raw(t, "version 0, bytes after", header(18, 0, 15, "judge", False) + b"\x01\x02\x03", 15)
    _raw(t, "version 3, bytes after", header(18, 3, 16, "judge", True) + b"\x06judge\x041.0\x00\x09\x09", 16)
    tagged = b"\x06judge\x041.0\x01\x07\x02\xaa\xbb"
    _raw(t, "version 3, unknown tag", header(18, 3, 17, "judge", True) + tagged, 17)
    with_tag = header(18, 3, 18, "judge", False) + b"\x01\x05\x01\xff" + b"\x06judge\x041.0\x00"
    _raw(t, "version 3, unknown tag in the header", with_tag, 18)


def _raw(t: Talk, step: str, data: bytes, correlation_id: int) -> None:
    wire = t.connect(2)
    wire.send_frame(data)
    outcome = wire.receive()
    if not hasattr(outcome, "data"):
        t.keep(step, outcome)
        return
    got, error = struct.unpack_from(">ih", outcome.data)
    t.keep(step, {"correlation_id_echoed": got == correlation_id, "error_code": schema.error_name(error)})
    if error == 35:
        rest = schema.decode_response("api_versions", 0, outcome.data[4:])
        t.keep(f"{step}: the answer", own(rest))


@scenario("versions_outside", (0,))
def just_outside(t: Talk, v: int) -> None:
    """One below the lowest and one above the highest version served, and version -1, with an empty body."""
    highest = {
        "init_producer_id": 5,
        "streams_group_heartbeat": 1,
        "streams_group_describe": 1,
        "update_raft_voter": -1,
    }
    for name in OUTSIDE:
        numbers = schema.versions_of(name)
        for number in (numbers[0] - 1, highest.get(name, numbers[-1]) + 1):
            if name == "api_versions" or (number < 0 and name != "metadata"):
                continue
            known = min(max(number, numbers[0]), numbers[-1])
            flexible = schema.request_header_is_flexible(name, known)
            body = schema.encode_request(name, known, {}).body
            t.raw(f"{name} {number}", header(schema.KEYS[name], number, 1, "judge", flexible) + body, timeout=1.5)
