"""One target under libFuzzer, in a process that it ends: `python -m tests.fuzzing.one TARGET SCRIPT [OPTION ..]`."""

from __future__ import annotations

import logging
import sys
from typing import NoReturn

import atheris
import structlog


def drop(*_event: object) -> NoReturn:
    raise structlog.DropEvent


# A target may look at errors that are logged (`capture_logs` takes the place of these processors); nothing is written.
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR), processors=[drop])
name, *command = sys.argv[1:]
with atheris.instrument_imports(include=["broker", "controller", "coordinator", "protocol", "storage"]):
    from tests.fuzzing.targets import TARGETS

    for seed in TARGETS[name].seeds():  # which import what is imported only once it is needed
        TARGETS[name].try_out(seed)

atheris.Setup(command, TARGETS[name].try_out)
atheris.Fuzz()
