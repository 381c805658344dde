"""One target under libFuzzer, in a process that it ends: `python -m tests.fuzzing.one TARGET SCRIPT [OPTION ..]`."""

from __future__ import annotations

import logging
import sys

import atheris
import structlog

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
with atheris.instrument_imports(include=["broker", "controller", "coordinator", "protocol", "storage"]):
    from tests.fuzzing.targets import TARGETS

name, *command = sys.argv[1:]
atheris.Setup(command, TARGETS[name].try_out)
atheris.Fuzz()
