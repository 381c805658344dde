"""What the pytest plugin is made of; `factories` makes fixtures of your own."""

from __future__ import annotations
