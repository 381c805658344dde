"""`odradek tokens create|list|renew|expire`: delegation tokens, by which a job logs in without its owner's password.

A token is named by its id, which is no secret; its HMAC, which is the password, is printed once, when it is created.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from odradek.cli.connection import TargetCluster, connected, refusals
from odradek.cli.durations import DURATION, DURATION_FORMS
from odradek.cli.general import ClusterCommands, confirm
from odradek.cli.kafka_python import require_no_error
from odradek.cli.messages import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from odradek.cli.output import Output

AT_ONCE = -1
"""The period after which Kafka expires a token at once; and, of a new or renewed one, the broker's own."""


@click.group("tokens", cls=ClusterCommands)
def main() -> None:
    """Create, list, renew and expire delegation tokens (brokers have them with delegation.token.secret.key)."""


def _principals(names: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    """The type and the name of each. Raises BadParameter."""
    found = [name.partition(":") for name in names]
    for kind, _, name in found:
        if not kind or not name:
            raise click.BadParameter("expected a principal such as User:app", param_hint=option)
    return [(kind, name) for kind, _, name in found]


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


def _ask(cluster: TargetCluster, request: Any) -> Any:
    """Raises KafkaException, KafkaError."""
    with cluster.python_admin() as admin:
        answer = admin._manager.run(admin._manager.send, request)
    require_no_error(answer)
    return answer


@main.command()
@click.option("--owner", metavar="User:NAME", help="Whose it is; default: the client's.")
@click.option("--renewer", "renewers", multiple=True, metavar="User:NAME", help="May renew it; may be repeated.")
@click.option("--lifetime", type=DURATION, help=f"Its longest life: {DURATION_FORMS}; default: the broker's.")
@connected
def create(
    cluster: TargetCluster, out: Output, owner: str | None, renewers: tuple[str, ...], lifetime: int | None
) -> None:
    """Create a token, and print it; the HMAC is shown this once.

    A client logs in by SCRAM with the id as user name, the HMAC as password and `tokenauth=true` (Java clients: in
    sasl.jaas.config).
    """
    request = CreateDelegationTokenRequest(
        renewers=_principals(renewers, "--renewer"), max_lifetime_ms=AT_ONCE if lifetime is None else lifetime
    )
    if owner is not None:
        ((request.owner_principal_type, request.owner_principal_name),) = _principals((owner,), "--owner")
    made = _ask(cluster, request)
    about = {
        "token_id": made.token_id,
        "hmac": base64.b64encode(made.hmac).decode(),
        "owner": f"{made.principal_type}:{made.principal_name}",
        "expires": _time(made.expiry_timestamp_ms),
        "renewable_until": _time(made.max_timestamp_ms),
    }
    if out.as_json:
        out.document(about)
    else:
        out.lines([(name.replace("_", " "), value) for name, value in about.items()])


def _tokens(cluster: TargetCluster, owners: list[tuple[str, str]] | None = None) -> list[Any]:
    found = _ask(cluster, DescribeDelegationTokenRequest(owners=owners)).tokens
    return sorted(found, key=lambda token: str(token.token_id))


@main.command("list")
@click.option("--owner", "owners", multiple=True, metavar="User:NAME", help="Only of these; may be repeated.")
@connected
def list_(cluster: TargetCluster, out: Output, owners: tuple[str, ...]) -> None:
    """List the tokens that the client may see, without their secrets."""
    out.table(
        ("token_id", "owner", "requester", "renewers", "issued", "expires", "renewable_until"),
        [
            (
                token.token_id,
                f"{token.principal_type}:{token.principal_name}",
                f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
                [f"{each.principal_type}:{each.principal_name}" for each in token.renewers],
                _time(token.issue_timestamp),
                _time(token.expiry_timestamp),
                _time(token.max_timestamp),
            )
            for token in _tokens(cluster, _principals(owners, "--owner") or None)
        ],
    )


@main.command()
@click.argument("token_ids", nargs=-1, required=True, metavar="TOKEN_ID...")
@click.option("--for", "period", type=DURATION, help=f"From now: {DURATION_FORMS}; default: the broker's.")
@connected
def renew(cluster: TargetCluster, out: Output, token_ids: tuple[str, ...], period: int | None) -> None:
    """Let tokens live longer."""
    _change(
        cluster,
        out,
        token_ids,
        lambda hmac: RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=AT_ONCE if period is None else period),
        lambda answer: f"renewed until {_time(answer.expiry_timestamp_ms)}",
    )


@main.command()
@click.argument("token_ids", nargs=-1, required=True, metavar="TOKEN_ID...")
@click.option("--in", "period", type=DURATION, help=f"From now: {DURATION_FORMS}; default: at once.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@connected
def expire(cluster: TargetCluster, out: Output, token_ids: tuple[str, ...], period: int | None, yes: bool) -> None:
    """Let tokens end: nobody logs in with them any more."""
    confirm(f"Expire {', '.join(token_ids)}?", yes)
    _change(
        cluster,
        out,
        token_ids,
        lambda hmac: ExpireDelegationTokenRequest(
            hmac=hmac, expiry_time_period_ms=AT_ONCE if period is None else period
        ),
        lambda answer: "expired" if period is None else f"expires {_time(answer.expiry_timestamp_ms)}",
    )


def _change(
    cluster: TargetCluster,
    out: Output,
    token_ids: tuple[str, ...],
    request: Callable[[bytes], Any],
    done: Callable[[Any], str],
) -> None:
    known = {token.token_id: token.hmac for token in _tokens(cluster)}
    for token_id in token_ids:
        if token_id not in known:
            out.failure({"token": token_id}, "DELEGATION_TOKEN_NOT_FOUND", "the client sees no such token")
            continue
        with refusals(out, {"token": token_id}):
            out.result({"token": token_id}, done(_ask(cluster, request(known[token_id]))))
