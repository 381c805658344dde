"""Clients that work in a thread while a test goes on."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from typing import Self


class Worker(ABC):
    """Works in a thread until it is told to stop. An error that ended the work early is raised then, not lost.

    A context manager; the work begins with the block.
    """

    def __init__(self) -> None:
        self.told_to_stop = threading.Event()
        self._result: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def work(self) -> None:
        """Do everything; to return soon after `told_to_stop` is set."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Return once the work has ended."""
        self.told_to_stop.set()
        self._result.result()

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - `stop` raises it
            self._result.set_exception(error)
        else:
            self._result.set_result(None)
