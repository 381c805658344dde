"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click


def s3_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--s3-endpoint` and `--s3-region`; the command gets them as `s3_endpoint` and `s3_region`."""
    for option in (
        click.option("--s3-region", metavar="NAME", help="region of s3:// paths  [default: the SDK's usual chain]"),
        click.option("--s3-endpoint", metavar="URL", help="server of s3:// paths, if it is not Amazon's"),
    ):
        function = option(function)
    return function


def spark_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--master`, `--packages` and `--conf`; the command gets them as `master`, `packages` and `conf`."""
    for option in (
        pairs_option("--conf", help="setting of Spark; may be repeated"),
        click.option(
            "--packages",
            callback=_coordinates,
            help="Maven coordinates in place of ours, separated by commas; '' when the cluster has the jars",
        ),
        click.option("--master", help="Spark's master  [default: what spark-submit was given, else local[*,4]]"),
    ):
        function = option(function)
    return function


def tier_config_option(of: str) -> Callable[..., Any]:
    """`--tier-config`, the options of the data source for a tier that is given by the options `of`."""
    return pairs_option(
        "--tier-config",
        help=f"option of the data source for {of}, as s3Endpoint or tierMetadata; may be repeated",
    )


TABLE_FORMATS = ("delta", "iceberg", "parquet")
_COLUMNS = ("partition", "offset", "key", "value", "headers", "timestamp")


def table_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what says of a table which one and what its columns are called; see `TablePlace`."""
    for option in (
        click.option(
            "--column",
            "names",
            multiple=True,
            metavar="NAME=ITS",
            callback=_columns,
            help="the table's own name for partition, offset, key, value, headers or timestamp; may be repeated",
        ),
        click.option(
            "--version", type=int, metavar="NUMBER", help="of a Delta table, or a snapshot's id of an Iceberg table"
        ),
        click.option(
            "--format",
            "table_format",
            type=click.Choice(TABLE_FORMATS),
            help="[default: by what lies in the folder]",
        ),
        click.option(
            "--dead-letters", metavar="PATH", help="the table with those records that the table does not have"
        ),
        click.option("--checkpoints", metavar="PATH", help="the lake job's --checkpoints, if they are not in the lake"),
    ):
        function = option(function)
    return function


def _columns(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    found = _pairs(ctx, parameter, values)
    for name in found:
        if name not in _COLUMNS:
            raise click.BadParameter(f"{name!r} is none of {', '.join(_COLUMNS)}", ctx, parameter)
    return found


def pairs_option(*names: str, help: str) -> Callable[..., Any]:
    """An option that may be repeated, whose values are KEY=VALUE: the command gets them as a dict."""
    return click.option(*names, multiple=True, metavar="KEY=VALUE", callback=_pairs, help=help)


def _pairs(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """click callback: KEY=VALUE arguments as a dict. Raises BadParameter if there is no `=`."""
    found = {}
    for value in values:
        key, separator, rest = value.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{value!r} is not KEY=VALUE", ctx, parameter)
        found[key] = rest
    return found


def refuse(flag: str, given: Mapping[str, str], owned: Mapping[str, str]) -> None:
    """Raises UsageError for a setting that is the command's own; `owned` says, by lower-case name, what sets it."""
    for key in given:
        by = owned.get(key.lower())
        if by is not None:
            raise click.UsageError(f"{flag} {key}: this is set by {by}")


def _coordinates(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    return tuple(part.strip() for part in value.split(",") if part.strip())
