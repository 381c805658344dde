"""The process that asks records whether they pass an expression in jq: `python -I -S filter_process.py MODULE`.

It is a program of its own, as an expression may go on for ever or fill any memory, and jq cannot be stopped from
outside. It gives all of that up before it reads an expression: its memory is bounded, and its time for each record; it
can open no file, start no process and, having no environment, tell nobody about it.

The first line that it reads is the expression, as JSON; each further one is a record, as JSON. It answers each line
with one: `true`, `false`, or a text that says what is wrong, as JSON. A record passes by any value but null and false.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import resource
import sys
import time
from contextlib import suppress
from typing import Any

MEMORY, CPU_S = 256 << 20, 10
"""`CPU_S` is for each record, and for the expression: should nobody be there to end this process."""

LONGEST_ANSWER = 500


def module_at(path: str) -> Any:
    """jq's module. It is found by its place, as this process looks at no folder for modules."""
    loader = importlib.machinery.ExtensionFileLoader("jq", path)
    spec = importlib.util.spec_from_file_location("jq", path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def bound() -> None:
    limits = {
        resource.RLIMIT_AS: MEMORY,
        resource.RLIMIT_NOFILE: 3,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in limits.items():
        with suppress(ValueError, OSError):  # a system may not have it, or have less
            resource.setrlimit(kind, (most, most))


def begin() -> None:
    """Bound the time from now on."""
    with suppress(ValueError, OSError):
        most = int(time.process_time()) + CPU_S
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))


def clean(error: ValueError) -> str:
    return str(error).removeprefix("jq: error: ").partition("\njq: ")[0][:LONGEST_ANSWER]


def answer(program: Any, record: str) -> bool | str:
    try:
        found = program.input_text(record).first()
    except StopIteration:  # `empty`, or `select`
        return False
    except ValueError as error:
        return clean(error)
    return found is not None and found is not False


def main(jq: Any) -> None:
    say(None)
    try:
        program = jq.compile(json.loads(sys.stdin.readline()))
    except ValueError as error:
        say(clean(error))
        return
    say(True)
    for line in sys.stdin:
        begin()
        say(answer(program, line))


def say(what: bool | str | None) -> None:
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    jq = module_at(sys.argv[1])
    jq.compile(".").input_text("1").first()  # what is loaded at first use is loaded by now
    os.environ.clear()  # Python has set something itself, and jq's `env` tells it
    bound()
    begin()
    main(jq)
