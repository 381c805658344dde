"""`odradek cluster features list|upgrade|downgrade`: the levels that a cluster's nodes have agreed on."""

from __future__ import annotations

import re
from typing import Any

import click
from kafka.protocol.admin import UpdateFeaturesRequest

from odradek.cli.connection import TargetCluster, connected, refusals
from odradek.cli.general import ClusterCommands, confirm
from odradek.cli.kafka_python import require_no_error
from odradek.cli.output import Output

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""The kinds of changes, by Kafka's numbers."""


@click.group("features", cls=ClusterCommands)
def main() -> None:
    """List the features of the cluster (metadata.version, share.version, ...), and change their levels."""


@main.command("list")
@connected
def list_(cluster: TargetCluster, out: Output) -> None:
    """List the features: the levels that the brokers support, and the one that is in force."""
    with cluster.python_admin() as admin:
        found = admin.describe_features()
    rows = []
    for name, about in sorted(found.items()):
        lowest, highest = about.get("supported", (None, None))
        rows.append((name, lowest, highest, about.get("finalized", (0, 0))[1]))
    out.table(("feature", "lowest", "highest", "level"), rows)


def _levels(levels: tuple[str, ...]) -> dict[str, int]:
    """The level of each feature. Raises BadParameter."""
    found = {}
    for text in levels:
        match = re.fullmatch(r"([^=]+)=([0-9]{1,5})", text)
        if match is None or int(match[2]) >= 2**15:
            raise click.BadParameter(f"{text!r}: expected FEATURE=LEVEL, such as share.version=1", param_hint="LEVEL")
        found[match[1]] = int(match[2])
    return found


@main.command()
@click.argument("levels", nargs=-1, required=True, metavar="FEATURE=LEVEL...")
@click.option("--dry-run", is_flag=True, help="Only check.")
@connected
def upgrade(cluster: TargetCluster, out: Output, levels: tuple[str, ...], dry_run: bool) -> None:
    """Raise levels: all brokers have to support them; older software may not join any more."""
    _update(cluster, out, _levels(levels), UPGRADE, dry_run)


@main.command()
@click.argument("levels", nargs=-1, required=True, metavar="FEATURE=LEVEL...")
@click.option("--unsafe", is_flag=True, help="Also if metadata is lost by it.")
@click.option("--dry-run", is_flag=True, help="Only check.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@connected
def downgrade(
    cluster: TargetCluster, out: Output, levels: tuple[str, ...], unsafe: bool, dry_run: bool, yes: bool
) -> None:
    """Lower levels; 0 switches a feature off."""
    wanted = _levels(levels)
    if unsafe and not dry_run:
        confirm(f"Metadata that {', '.join(wanted)} needs may be lost. Downgrade?", yes)
    _update(cluster, out, wanted, UNSAFE_DOWNGRADE if unsafe else SAFE_DOWNGRADE, dry_run)


def _update(cluster: TargetCluster, out: Output, levels: dict[str, int], kind: int, dry_run: bool) -> None:
    """All change or none; brokers before Kafka 4.0 also tell of each feature."""
    request = UpdateFeaturesRequest(
        timeout_ms=int(cluster.timeout * 1000),
        feature_updates=[
            UpdateFeaturesRequest.FeatureUpdateKey(
                feature=name, max_version_level=level, allow_downgrade=kind != UPGRADE, upgrade_type=kind
            )
            for name, level in levels.items()
        ],
        validate_only=dry_run,
        min_version=1 if dry_run or kind == UNSAFE_DOWNGRADE else 0,
    )
    with cluster.python_admin() as admin:
        answer = admin._manager.run(admin._manager.send, request)
    require_no_error(answer)
    refused: dict[str, Any] = {each.feature: each for each in answer.results or () if each.error_code}
    for name, level in levels.items():
        with refusals(out, {"feature": name}):
            if name in refused:
                require_no_error(refused[name])
            out.result({"feature": name}, f"would be at level {level}" if dry_run else f"level {level}")
