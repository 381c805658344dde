"""Plays the scenarios against any running broker and prints what differs from Kafka's recorded answers.

python -m tests.conformance.compare --bootstrap 127.0.0.1:9092 [--only metadata/] [--kafka HOST:PORT] [--report FILE]
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import click

from tests.conformance import transcripts
from tests.conformance.contract import in_contract_order
from tests.conformance.deviations import excused
from tests.conformance.record import chosen, play


def unexpected(api: str, name: str, expected: dict[str, Any], got: dict[str, Any]) -> dict[str, list[str]]:
    """The differences of one transcript that no listed deviation explains: step -> "path: expected X, got Y"."""
    found: dict[str, list[str]] = {}
    for step in list(expected) + [s for s in got if s not in expected]:
        if step not in got:
            found[step] = ["not reached"]
        elif step not in expected:
            found[step] = [f"unexpected {str(got[step])[:300]}"]
        else:
            wanted, found_here = in_contract_order(api, expected[step]), in_contract_order(api, got[step])
            lines = transcripts.differences(wanted, found_here)
            if lines and not excused(api, name, step, wanted, found_here):
                found[step] = lines
    return found


@click.command()
@click.option("--bootstrap", default="127.0.0.1:9092", show_default=True)
@click.option("--only", default="", help="Part of api/scenario.")
@click.option("--jobs", default=2, show_default=True)
@click.option("--kafka", help="Ask this Kafka now, as for `record`, instead of reading what was recorded.")
@click.option("--report", type=click.Path(path_type=Path), help="Write the differences to this file instead.")
def main(bootstrap: str, only: str, jobs: int, kafka: str | None, report: Path | None) -> None:
    scenarios = chosen(only)
    played = play(scenarios, bootstrap, jobs)
    asked = play(scenarios, kafka, jobs) if kafka else None
    passed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    found: dict[str, dict[str, dict[str, tuple[list[int], list[str]]]]] = defaultdict(lambda: defaultdict(dict))
    for (api, name, version), got in played.items():
        recorded = transcripts.load_cached(api).get(name, {}).get(version, {})
        steps = unexpected(api, name, asked[api, name, version] if asked else recorded, got)
        for step, lines in steps.items():
            known, _ = found[api][name].get(step, ([], []))
            found[api][name][step] = ([*known, version], lines)
        (failed if steps else passed)[api] += 1
    out = [f"# {bootstrap} against Kafka's recorded answers", ""]
    out += [f"- {api}: {passed[api]} pass, {failed[api]} fail" for api in sorted({s.api for s in scenarios})]
    out += [f"- all: {passed.total()} pass, {failed.total()} fail", ""]
    for api, by_name in sorted(found.items()):
        out += [f"## {api}", ""]
        for name, by_step in by_name.items():
            out += [f"### {name}", ""]
            for step, (versions, lines) in by_step.items():
                out += [f"- v{transcripts.ranges(versions)} **{step}**", *(f"    - {line}" for line in lines)]
            out.append("")
    if report:
        report.write_text("\n".join(out))
        out = out[: out.index("", 2)]
    click.echo("\n".join(out))
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
