"""Several brokers on one machine: `odradek serve --brokers 3`."""

from __future__ import annotations
