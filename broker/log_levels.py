"""The levels of the process's loggers, read and changed while it runs: Kafka's BROKER_LOGGER resources.

The standard library's loggers have the levels, ours and those of libraries alike: a logger without a level of its own
has that of the nearest package above it (`broker.network` of `broker.network.server`), in the end that of `root`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import structlog

ROOT = "root"
LEVELS = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": 5,
    "WARN": logging.WARNING,
}
"""The standard library's number of each of Kafka's levels."""
_PACKAGES = frozenset({"broker", "controller", "coordinator", "metadata", "protocol", "storage", "timing"})
_BY_SEVERITY = sorted(LEVELS.items(), key=lambda item: item[1])


def levels() -> dict[str, str]:
    """The level in force of each logger by its name, `root` first; a level is one of `LEVELS`."""
    return {name: _text(_logger(name).getEffectiveLevel()) for name in (ROOT, *sorted(_names()))}


def set_level(name: str, level: str) -> None:
    """Give a logger a level, and with it those below that have none of their own. Raises KeyError for a wrong level."""
    _logger(name).setLevel(LEVELS[level])


def unset_level(name: str) -> None:
    """Take a logger's own level away; not that of `root`, as nothing is above it."""
    if name != ROOT:
        _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _names() -> set[str]:
    """The loggers of libraries, and those of our modules that are loaded, with the packages above them."""
    found = set(logging.Logger.manager.loggerDict)
    for name in _modules_that_log():
        parts = name.split(".")
        found.update(".".join(parts[:length]) for length in range(1, len(parts) + 1))
    return found


def _modules_that_log() -> Iterator[str]:
    # structlog makes a module's logger, and with it the standard library's, when the first line is written.
    lazy = type(structlog.get_logger())
    for name, module in tuple(sys.modules.items()):
        if name.partition(".")[0] in _PACKAGES and isinstance(getattr(module, "logger", None), lazy):
            yield name


def _text(level: int) -> str:
    """Kafka's name of the level, or of the next one above."""
    return next((name for name, number in _BY_SEVERITY if level <= number), "FATAL")
