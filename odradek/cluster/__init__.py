"""Several brokers as one cluster: `odradek.Cluster`."""

from __future__ import annotations
