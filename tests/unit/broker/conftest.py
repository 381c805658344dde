"""What the tests of a whole node share."""

from __future__ import annotations

import pytest
import structlog

from broker.logging import Tracebacks


@pytest.fixture
def tracebacks() -> Tracebacks:
    """Count what is logged with a traceback from now on; `own_logging` undoes it."""
    counter = Tracebacks()
    structlog.configure(processors=[counter, *structlog.get_config()["processors"]])
    return counter
