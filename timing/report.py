"""Reporting an exception that must not stop other work."""

from __future__ import annotations

import asyncio
import logging


def report_exception(message: str, exception: Exception) -> None:
    """Pass `exception` to the running loop's exception handler, or log it if no loop runs."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        logging.getLogger("timing").error(message, exc_info=exception)
        return
    loop.call_exception_handler({"message": message, "exception": exception})
