"""What can be wrong with a schema, or with a value for it. The texts are sentences for people."""

from __future__ import annotations

INSTALL = "pip install '/path/to/odradek[registry]'"


class SchemaError(ValueError):
    """The schema cannot be used, or the value is not of it."""


class MissingLibraryError(SchemaError):
    """The library for this kind of schema is not installed."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"{kind} needs a library that is not here: {INSTALL}")
