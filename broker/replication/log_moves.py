"""The moves of partitions between folders of `log.dirs` that clients asked for (Kafka's ReplicaAlterLogDirsManager)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from protocol.errors import KafkaError, KafkaStorage
from storage.folders.log_move import LogMove, MoveEndedError

if TYPE_CHECKING:
    from storage.folders.log_dirs import LogDir
    from storage.folders.log_manager import LogManager
    from storage.log.unified_log import UnifiedLog

logger = structlog.get_logger(__name__)


class LogMoves:
    """One move at a time; a partition's latest request counts. `is_cleaning` tells whether a log is being compacted.

    A stop of the broker cancels unfinished moves.
    """

    def __init__(self, logs: LogManager, is_cleaning: Callable[[UnifiedLog], bool], new_id: Callable[[], UUID]) -> None:
        self._logs = logs
        self.is_cleaning = is_cleaning
        self._new_id = new_id
        self._turn = asyncio.Lock()
        self._moves: dict[UnifiedLog, LogMove] = {}
        self._tasks: dict[LogMove, asyncio.Task[None]] = {}
        self._at_work: LogMove | None = None
        self.ended = 0
        """The number of moves that are over, done or not."""

    def future_of(self, log: UnifiedLog) -> LogMove | None:
        """The move of a log, if one is under way or waits for its turn."""
        return self._moves.get(log)

    def request(self, log: UnifiedLog, path: str) -> None:
        """Move a log to the folder at the absolute `path`; if it is there already, cancel its move (`ReplicaManager`).

        Raises KafkaStorage if the log or any folder is offline, LogDirNotFound.
        """
        target = self._logs.log_dir(path)
        if target.failed:
            raise KafkaStorage(f"Log directory {path} is offline")
        if log.is_offline:
            raise log.storage_error()
        under_way = self._moves.get(log)
        if under_way is not None:
            if under_way.target is target:
                return
            under_way.cancel()
            del self._moves[log]
        if os.path.abspath(os.path.dirname(log.folder)) == path:
            return
        if self._logs.failed_folders:
            raise KafkaStorage("No partition is moved while a log directory is offline")
        self._start(log, target)

    def _start(self, log: UnifiedLog, target: LogDir) -> None:
        move = LogMove(self._logs, log, target, self._new_id(), self.is_cleaning)
        self._moves[log] = move
        task = self._tasks[move] = asyncio.ensure_future(self._run(move))
        task.add_done_callback(lambda _: self._tasks.pop(move))

    async def stop_moving(self, log: UnifiedLog) -> str | None:
        """Cancel the log's move and wait until it has ended, so that the log may be truncated.

        Returns the folder that it was to go to, for `move_again`; None if it is not being moved.
        """
        move = self._moves.get(log)
        if move is None:
            return None
        move.cancel()
        if move is self._at_work:
            await asyncio.wait([self._tasks[move]])
        else:  # it touches nothing when its turn comes, which may be hours later
            del self._moves[log]
        return move.target.path

    def move_again(self, log: UnifiedLog, path: str) -> None:
        """Request the move that was cancelled; if that is not possible any more, say so."""
        try:
            self.request(log, os.path.abspath(path))
        except KafkaError as error:
            logger.warning("partition move not begun again", partition=log.name, to=path, error=str(error))

    async def _run(self, move: LogMove) -> None:
        log = move.log
        described = {"partition": log.name, "to": move.target.path}
        try:
            async with self._turn:
                self._at_work = move
                logger.info("partition move started", **described)
                await move.run()
                logger.info("partition moved", **described)
        except MoveEndedError:
            logger.info("partition move cancelled", **described)
        except (OSError, KafkaError) as error:
            logger.error("partition move failed", error=str(error), **described)
        except Exception:
            logger.exception("unexpected error during a partition move", **described)
        finally:
            self.ended += 1
            if self._moves.get(log) is move:
                del self._moves[log]

    async def stop(self) -> None:
        """Cancel every move, and wait until all have ended."""
        for move in self._moves.values():
            move.stop()
        await asyncio.gather(*self._tasks.values())
