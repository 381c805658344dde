"""`odradek check lag|isr|leaders|brokers|disk|transactions`: one line and an exit status, for a monitor.

As plugins of Nagios, Icinga, Sensu and others do: the status is 0 if all is well, 1 for a warning, 2 for what is
critical, 3 if it could not be found out; behind the `|` stand the figures with their limits. A figure reaches a limit
if it is as large, or, for what there must be enough of, smaller.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, NoReturn

import click

from odradek.cli.connection import TargetCluster, on_cluster
from odradek.cli.general import ClusterCommands, general_options, given
from odradek.cli.output import Output
from odradek.terminal import printable

STATUSES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
UNKNOWN = STATUSES.index("UNKNOWN")
NOTHING = ("nothing to check", "standard error says why nothing could be checked")
MOST_NAMED = 5
"""So many things that are not well are named in the line."""


@dataclass(frozen=True)
class Figure:
    """A measurement of one thing.

    Attributes:
        name: what it is of, such as a group.
        text: the figure as a sentence.
        unit: one that the plugins' rules know, such as `s` or `%`.
    """

    name: str
    value: float
    text: str
    unit: str = ""


class _WrongUse(click.UsageError):
    exit_code = UNKNOWN


class _Check(click.Command):
    """A command whose errors, also that of a wrong argument, have the status for what is not known.

    Its line is on standard output, which monitors show.
    """

    def make_context(self, *arguments: Any, **more: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **more)
        except click.UsageError as error:
            raise _WrongUse(error.format_message(), error.ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise _WrongUse(error.format_message(), error.ctx) from error
        except click.ClickException as error:
            _print_unknown(str(self.name), error.format_message(), given(ctx).as_json)
            raise click.exceptions.Exit(UNKNOWN) from error


def _print_unknown(name: str, why: str, as_json: bool) -> None:
    if as_json:
        Output(as_json).document({"check": name, "status": "UNKNOWN", "figures": [], "message": why})
    else:
        click.echo(printable(f"{name.upper()} UNKNOWN - {why}"))


@click.group("check", cls=ClusterCommands)
def main() -> None:
    """One line and an exit status for a monitor: 0 well, 1 warning, 2 critical, 3 not known."""


def _check(
    name: str, warning: float | None, critical: float | None, unit: str = "", at_least: bool = False
) -> Callable[[Callable[..., list[Figure]]], click.Command]:
    """Make a command of a function that measures; both limits are options, with these defaults."""

    def decorate(measure: Callable[..., list[Figure]]) -> click.Command:
        @wraps(measure)
        def command(warning: float | None, critical: float | None, **more: Any) -> None:
            def conclude(cluster: TargetCluster, out: Output, **more: Any) -> None:
                _conclude(out, name, measure(cluster, out, **more), warning, critical, at_least)

            on_cluster(conclude, **more)

        limited: Any = command
        for option, default in (("--critical", critical), ("--warning", warning)):
            text = f"{'Below' if at_least else 'From'} this figure on{f' ({unit})' if unit else ''}."
            limited = click.option(option, type=float, default=default, show_default=True, help=text)(limited)
        return main.command(name, cls=_Check)(general_options(limited))

    return decorate


def _conclude(
    out: Output, name: str, figures: list[Figure], warning: float | None, critical: float | None, at_least: bool
) -> NoReturn:
    """Print the line, or the JSON, and end with the status."""

    def level(figure: Figure) -> int:
        for status, limit in ((2, critical), (1, warning)):
            if limit is not None and (figure.value < limit if at_least else figure.value >= limit):
                return status
        return 0

    levels = [level(figure) for figure in figures]
    # What was refused of one of several things is on standard error.
    status = max([*levels, UNKNOWN if out.failures and max(levels, default=0) == 0 else 0])
    if out.as_json:
        about = [
            {"name": figure.name, "value": figure.value, "status": STATUSES[its]}
            for figure, its in zip(figures, levels, strict=True)
        ]
        out.document({"check": name, "status": STATUSES[status], "figures": about})
    else:
        worst = [figure for figure, its in zip(figures, levels, strict=True) if its == max(levels)]
        worst.sort(key=lambda figure: figure.value, reverse=not at_least)
        said = "; ".join(figure.text for figure in worst[:MOST_NAMED]) or NOTHING[status == UNKNOWN]
        more = f"; and {len(worst) - MOST_NAMED} more" if len(worst) > MOST_NAMED else ""
        click.echo(
            printable(f"{name.upper()} {STATUSES[status]} - {said}{more}{_performance(figures, warning, critical)}")
        )
    raise click.exceptions.Exit(status)


def _performance(figures: list[Figure], warning: float | None, critical: float | None) -> str:
    limits = ";".join("" if limit is None else f"{limit:g}" for limit in (warning, critical))
    shown = (f"'{figure.name.replace(chr(39), '')}'={figure.value:g}{figure.unit};{limits}" for figure in figures)
    return " | " + " ".join(shown) if figures else ""


# -- the checks


@_check("lag", warning=None, critical=None, unit="records")
@click.argument("groups", nargs=-1, metavar="[GROUP...]")
def lag(cluster: TargetCluster, out: Output, groups: tuple[str, ...]) -> list[Figure]:
    """Records that each group has yet to read; of all groups by default. Without a limit all is well."""
    from odradek.cli.group_kinds import KINDS, kind_of, listed

    known = listed(cluster, out)
    figures = []
    for group in groups or sorted(known):
        kind = KINDS.get(kind_of(known[group])) if group in known else None
        if kind is None:
            out.failure({"group": group}, "GROUP_ID_NOT_FOUND", "there is no such group")
            continue
        _, assigned = kind.members(cluster, group)
        records = sum(place["lag"] or 0 for place in kind.offsets(cluster, out, group, assigned))
        figures.append(Figure(group, records, f"group {group} has {records} records to read"))
    return figures


def _partitions(cluster: TargetCluster) -> list[tuple[str, Any]]:
    topics = cluster.admin().list_topics(timeout=cluster.timeout).topics
    return [
        (f"{name}-{partition.id}", partition)
        for name, topic in sorted(topics.items())
        for partition in topic.partitions.values()
    ]


def _counted(what: str, names: list[str], of: int) -> list[Figure]:
    """How many partitions are so, and which."""
    named = f": {', '.join(names[:MOST_NAMED])}{', ...' if len(names) > MOST_NAMED else ''}" if names else ""
    return [Figure("partitions", len(names), f"{len(names)} of {of} partitions {what}{named}")]


@_check("isr", warning=1, critical=None, unit="partitions")
def isr(cluster: TargetCluster, out: Output) -> list[Figure]:
    """Partitions of which a replica is not in sync (under-replicated)."""
    found = _partitions(cluster)
    behind = [name for name, partition in found if len(partition.isrs) < len(partition.replicas)]
    return _counted("lack a replica in sync", behind, len(found))


@_check("leaders", warning=None, critical=1, unit="partitions")
def leaders(cluster: TargetCluster, out: Output) -> list[Figure]:
    """Partitions without a leader: nobody can write or read them."""
    found = _partitions(cluster)
    return _counted("have no leader", [name for name, partition in found if partition.leader < 0], len(found))


@_check("brokers", warning=None, critical=1, unit="brokers", at_least=True)
def brokers(cluster: TargetCluster, out: Output) -> list[Figure]:
    """Brokers that the cluster knows as alive."""
    count = len(cluster.broker_ids())
    return [Figure("brokers", count, f"{count} brokers are alive")]


@_check("disk", warning=80, critical=90, unit="percent")
def disk(cluster: TargetCluster, out: Output) -> list[Figure]:
    """How full the device of each log directory is; one that has failed is full."""
    from odradek.cli.cluster_nodes import described_log_dirs

    figures = []
    for broker, directory in described_log_dirs(cluster, out, cluster.broker_ids()):
        name = f"{broker}:{directory['log_dir']}"
        total, usable = directory.get("total_bytes", -1), directory.get("usable_bytes", -1)
        if directory["error_code"]:
            figures.append(Figure(name, 100, f"the log directory {name} has failed", "%"))
        elif total > 0:
            used = round(100 * (1 - usable / total), 1)
            figures.append(Figure(name, used, f"the device of {name} is {used:g} % full", "%"))
        else:
            out.failure({"log_dir": name}, "UNSUPPORTED_VERSION", "the broker does not tell how full its device is")
    return figures


@_check("transactions", warning=None, critical=900, unit="seconds")
def transactions(cluster: TargetCluster, out: Output) -> list[Figure]:
    """Age of the oldest open transaction: readers of committed records wait for its end."""
    from odradek.cli.transactions import OPEN, listed

    now = time.time()
    figures = []
    open_ = [entry.transactional_id for entry in listed(cluster, out, OPEN)]
    with cluster.python_admin() as admin:
        for name in sorted(open_):
            about = admin.describe_transactions([name])[name]
            if about.transaction_start_time_ms > 0:
                age = round(max(0.0, now - about.transaction_start_time_ms / 1000))
                figures.append(Figure(name, age, f"the transaction of {name} is open for {age} s", "s"))
    return figures or [Figure("open", 0, "no transaction is open", "s")]
