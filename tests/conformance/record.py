"""Records the golden transcripts from a real Kafka: python -m tests.conformance.record --bootstrap 127.0.0.1:19092."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click

from tests.conformance import runner, transcripts
from tests.conformance.scenarios import load_all
from tests.conformance.wire import Wire


def chosen(only: str) -> list[runner.Scenario]:
    """The scenarios whose "api/name" holds `only` ("metadata/" picks one API)."""
    load_all()
    return [s for (api, name), s in sorted(runner.SCENARIOS.items()) if only in f"{api}/{name}"]


def warm(host: str, port: int) -> None:
    """Have the broker make and load its internal topics: what a request meets before that differs by the moment."""
    wire = Wire(host, port)
    deadline = time.monotonic() + 60
    for key_type, name in enumerate(("group", "transaction", "group:AAAAAAAAAAAAAAAAAAAABQ:0")):
        body = {"key_type": key_type, "coordinator_keys": [name]}
        while wire.call("find_coordinator", 6, body)["coordinators"][0]["error_code"] != "0 NONE":
            assert time.monotonic() < deadline, f"no coordinator for keys of type {key_type}"
            time.sleep(0.1)
    wire.close()
    time.sleep(1)  # a real broker loads what it has just made some ms later


def play(scenarios: list[runner.Scenario], bootstrap: str, jobs: int) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Every scenario at every version: (api, name, version) -> transcript."""
    host, port = bootstrap.rsplit(":", 1)
    warm(host, int(port))
    keys = [(s, version) for s in scenarios for version in s.versions]
    with ThreadPoolExecutor(jobs) as pool:
        done = pool.map(lambda key: runner.run(key[0], key[1], host, int(port)), keys)
        return {(s.api, s.name, v): steps for (s, v), steps in zip(keys, done, strict=True)}


@click.command()
@click.option(
    "--bootstrap", default="127.0.0.1:19092", show_default=True, help="A Kafka 4.4 of one node, default settings."
)
@click.option("--only", default="", help="Part of api/scenario; the rest of the golden files stays.")
@click.option("--jobs", default=3, show_default=True)
def main(bootstrap: str, only: str, jobs: int) -> None:
    began = time.monotonic()
    scenarios = chosen(only)
    played = play(scenarios, bootstrap, jobs)
    for api in sorted({s.api for s in scenarios}):
        known = transcripts.load(api)
        kept = {n: t for n, t in known.items() if (api, n) in runner.SCENARIOS}
        for s in scenarios:
            if s.api == api:
                kept[s.name] = {v: played[api, s.name, v] for v in s.versions}
        transcripts.save(api, kept)
    stopped = [f"{k}: {steps['stopped']}" for k, steps in played.items() if "stopped" in steps]
    for line in stopped:
        click.echo(f"STOPPED {line}")
    steps = sum(len(t) for t in played.values())
    click.echo(f"{len(played)} transcripts, {steps} answers, {time.monotonic() - began:.0f} s")
    if stopped:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
