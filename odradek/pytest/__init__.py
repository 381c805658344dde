"""The parts of the pytest plugin; `factories` makes fixtures of your own."""

from __future__ import annotations
