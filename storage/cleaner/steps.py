"""Work in small steps, so that a worker thread can do a slice of it and let the loop have the interpreter again."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[int, None, T]
"""Yields often, each time the bytes read and written since; may be left for good at any yield."""

RECORDS_A_STEP = 200
