"""A replay as its driver sees it: a bar on a terminal, or log lines, from what the tasks commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import structlog
from confluent_kafka import KafkaException
from tqdm import tqdm

from odradek_pipeline.replay.progress import ProgressReader, TaskProgress
from odradek_pipeline.replay.writer import TaskPlan

logger = structlog.get_logger(__name__)

POLL_SECONDS = 0.5
LOG_SECONDS = 10.0


class Watch:
    """A context manager: while it is open, a thread follows the job's progress topic. It never harms the job."""

    def __init__(self, plan: TaskPlan, tasks: int, total_rows: int | None, *, bar: bool) -> None:
        """`total_rows` None: unknown. With `bar` progress is shown on the terminal, else in the log."""
        self._plan = plan
        self._tasks = tasks
        self._bar = tqdm(total=total_rows, desc=plan.job, unit=" rows", unit_scale=True, disable=not bar)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="replay-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._bar.close()

    def _follow(self) -> None:
        try:
            with ProgressReader(self._plan.client, self._plan.job, range(self._tasks)) as reader:
                logged = time.monotonic()
                while not self._ended.is_set():
                    reader.follow(POLL_SECONDS)
                    self._show(reader.tasks.values())
                    if self._bar.disable and time.monotonic() - logged >= LOG_SECONDS:
                        logged = time.monotonic()
                        self._log(reader.tasks.values())
        except KafkaException as error:
            logger.warning("progress reports stopped", job=self._plan.job, error=str(error))

    def _show(self, tasks: Iterable[TaskProgress]) -> None:
        done = sum(progress.done for progress in tasks)
        self._bar.n = sum(progress.rows for progress in tasks)
        self._bar.set_postfix_str(f"tasks {done}/{self._tasks}")

    def _log(self, tasks: Iterable[TaskProgress]) -> None:
        logger.info(
            "progress",
            job=self._plan.job,
            rows=sum(progress.rows for progress in tasks),
            bytes=sum(progress.size for progress in tasks),
            tasks_done=sum(progress.done for progress in tasks),
            tasks=self._tasks,
        )
