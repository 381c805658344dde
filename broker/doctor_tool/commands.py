"""`odradek doctor`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click

from broker.config.broker_config import ConfigurationError
from broker.config.sources import config_options, load_options
from broker.doctor_tool import checks
from broker.doctor_tool.checks import Finding, Level

SIGNS = {Level.OK: "ok", Level.WARNING: " !", Level.PROBLEM: "!!"}


@click.command("doctor")
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(config_files: Sequence[str], settings: Sequence[str], as_json: bool) -> None:
    """Look for what would keep a broker from running well on this machine, with the same settings as `serve`.

    `odradek doctor -b HOST:PORT` looks at a cluster, as its clients here see it. The exit status is 1 for a problem.
    """
    found = _examine(config_files, settings)
    if as_json:
        click.echo(json.dumps([finding._asdict() | {"level": finding.level.value} for finding in found], indent=2))
    else:
        for finding in found:
            advice = f"\n   -> {finding.advice}" if finding.advice else ""
            click.echo(f"{SIGNS[finding.level]} {finding.subject}: {finding.text}{advice}")
    sys.exit(any(finding.level is Level.PROBLEM for finding in found))


def _examine(config_files: Sequence[str], settings: Sequence[str]) -> list[Finding]:
    try:
        loaded = load_options(config_files, settings)
    except ConfigurationError as error:
        return [Finding(Level.PROBLEM, "configuration", problem) for problem in error.problems]
    found = [Finding(Level.WARNING, "configuration", warning) for warning in loaded.warnings]
    return [
        *(found or [Finding(Level.OK, "configuration", "every setting is known and right")]),
        *checks.folders(loaded.config),
        *checks.limits(loaded.config),
        *checks.clock(loaded.config),
        *checks.ports(loaded.listeners),
        *checks.advertised(loaded.listeners),
    ]
