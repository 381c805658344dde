"""What a restore tells at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def lines(result: Mapping[str, Any]) -> list[str]:
    """What is wrong, by partition and group, and the verdict."""
    out: list[str] = []
    for found in result["partitions"]:
        place = f"{found['topic']}-{found['partition']}"
        out += [*found["damage"], *found["differences"]]
        if lost := found["lost"]["count"]:
            shown = ", ".join(f"{first} to {last}" for first, last in found["lost"]["ranges"][:5])
            out.append(f"{place}: {lost:,} offsets are lost, no copy has them whole: {shown}")
        if count := found["open_transactions"]:
            out.append(f"{place}: {count:,} transactions have no end in the source, so their records are not committed")
        if untimed := found.get("untimed"):
            out.append(f"{place}: {untimed:,} records have times not after 1970, and got the time of their writing")
    for group in result.get("groups", ()):
        moves = ", ".join(f"{number}: {old} to {new}" for number, (old, new) in group["offsets"].items())
        out.append(f"group {group['group']}: " + (f"NOT MOVED: {group['error']}" if group["error"] else moves))
    if result.get("remote_stays"):
        out.append("what is in remote storage stays there, and is not counted here: the broker goes on with it")
    verdict = "and compared with the source" if result["ok"] else "NOT ALL IS AS IT WAS, see above"
    out.append(f"{result['into']}: {_amount(result)} in {len(result['partitions'])} partitions restored, {verdict}")
    return out


def _amount(result: Mapping[str, Any]) -> str:
    partitions = result["partitions"]
    if "map" not in result:
        return f"{sum(found['end'] - found['start'] for found in partitions):,} offsets"
    there = sum(found["found"] for found in partitions)
    total = f"{sum(found['records'] for found in partitions):,} records"
    return f"{total}, {there:,} of them by an earlier start," if there else total
