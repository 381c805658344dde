"""Tests of storage have files in memory, and are quiet: thousands of recoveries would bury a failure in log lines."""

from __future__ import annotations

import logging

import pytest
import structlog

from tests.doubles.files import MemoryFileSystem


@pytest.fixture(autouse=True)
def quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


@pytest.fixture
def fs() -> MemoryFileSystem:
    return MemoryFileSystem()
