"""Tests of the metadata log are quiet: thousands of recoveries would bury a failure in log lines."""

from __future__ import annotations

import logging

import pytest
import structlog


@pytest.fixture(autouse=True)
def quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
