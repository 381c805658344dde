"""A configuration from the text of one file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.config.sources import Loaded, load


def load_text(text: str, environ: Mapping[str, str] | None = None, settings: Iterable[str] = ()) -> Loaded:
    return load([("server.properties", text)], environ, settings)
