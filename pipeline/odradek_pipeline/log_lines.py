"""The log of a job's process: readable lines on a terminal, beside the bar, and JSON lines otherwise.

Others write to standard error too: Spark's JVM and what it starts, Ivy, librdkafka, Python itself. So where it is no
terminal, it becomes a pipe, and what comes out of that is passed on as JSON.
"""

from __future__ import annotations

import atexit
import datetime
import json
import os
import sys
import threading
from types import TracebackType
from typing import Any, TextIO

import structlog
from structlog.typing import Processor
from tqdm import tqdm

STDERR = 2
END = b"\0end of the log\n"
NAMES = {"ts": "timestamp", "msg": "event"}
"""What Spark's own JSON lines call what ours call otherwise."""


class _StreamBesideBar:
    """A stream for log lines that leaves the progress bar in place."""

    def write(self, text: str) -> None:
        tqdm.write(text, file=sys.stderr, end="")

    def flush(self) -> None:
        sys.stderr.flush()


def configure(stream: TextIO | None = None) -> bool:
    """Set up the log of the process, on standard error by default; return whether that is a terminal."""
    stream = stream or sys.stderr  # the current one, not the one at import time
    terminal = stream.isatty()
    if not terminal and stream is sys.__stderr__ and sys.stderr.fileno() == STDERR:
        stream = _divert()
    render: list[Processor] = (
        [structlog.dev.ConsoleRenderer()]
        if terminal
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True), *render],
        logger_factory=structlog.WriteLoggerFactory(file=_StreamBesideBar() if terminal else stream),  # type: ignore[arg-type]
    )
    return terminal


def keep_from_output() -> None:
    """Log lines go to standard error: for a command whose standard output is its result."""
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))


def _divert() -> TextIO:
    """Make standard error a pipe, until the process ends; return a stream to where it went before."""
    sys.stderr.flush()
    log = os.fdopen(os.dup(STDERR), "w", encoding="utf-8", buffering=1)
    source, sink = os.pipe()
    os.dup2(sink, STDERR)
    thread = threading.Thread(target=_pass_on, args=(source, log.fileno()), name="standard-error", daemon=True)
    thread.start()

    def end() -> None:
        """Pass on what is in the pipe; Spark's JVM may keep it open for longer than this process lives."""
        sys.stderr.flush()
        os.dup2(log.fileno(), STDERR)
        os.write(sink, END)
        thread.join(10)

    atexit.register(end)
    sys.excepthook = _crashed
    return log


def _pass_on(source: int, log: int) -> None:
    with os.fdopen(source, "rb") as lines:
        for line in lines:
            if line.endswith(END):
                return
            if line.strip():
                os.write(log, as_json(line.decode(errors="replace")).encode())


def as_json(line: str) -> str:
    """A line of any program as one of our log: Spark's JSON with our names, and text as an event."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        text = line.rstrip()
        now = datetime.datetime.now(datetime.UTC).isoformat()
        guess = "error" if text.startswith(("Error: ", "Exception in ", "Traceback ")) else "info"
        found = {"event": text, "level": guess, "logger": "stderr", "timestamp": now}
    named: dict[str, Any] = {NAMES.get(key, key): value for key, value in found.items()}
    if isinstance(level := named.get("level"), str):
        named["level"] = {"warn": "warning"}.get(level.lower(), level.lower())
    return json.dumps(named) + "\n"


def _crashed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    structlog.get_logger(__name__).critical("the job has crashed", exc_info=(kind, error, trace))
