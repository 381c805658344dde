"""The process that started this one, if this one is to end with it (`serve --exit-with-parent`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil

STDIN = 0


class Parent:
    """Knows when the parent has ended: standard input, a pipe that it holds, ends, or its process does.

    The pipe alone is not enough: a forked child of the parent holds it too, and may live longer. A file or /dev/null in
    its place says nothing. `has_ended` is set then.
    """

    def __init__(self) -> None:
        self.has_ended = False

    def watch(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        """Set `stop` when the parent has ended."""

        def ended() -> None:
            self.has_ended = True
            stop.set()

        def has_input() -> None:
            if not os.read(STDIN, 4096):
                loop.remove_reader(STDIN)
                ended()

        with contextlib.suppress(PermissionError):  # of a file
            loop.add_reader(STDIN, has_input)
        if hasattr(os, "pidfd_open"):
            try:
                process = os.pidfd_open(os.getppid())
            except OSError:
                return  # an old kernel, or a sandbox that does not allow it

            def process_ended() -> None:
                loop.remove_reader(process)
                os.close(process)
                ended()

            loop.add_reader(process, process_ended)

    def remove(self, folder: str) -> None:
        """Remove a folder of the parent's that nobody else removes: only if the parent has ended."""
        if self.has_ended:
            shutil.rmtree(folder, ignore_errors=True)
