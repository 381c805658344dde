"""Work in small steps, so that a worker thread can do a slice of it and then let the loop have the interpreter."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[int, None, T]
"""Yields often, each time the bytes read and written since the last yield; may be abandoned at any yield."""

RECORDS_A_STEP = 200
