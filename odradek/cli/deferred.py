"""Modules that a client library imports and most commands never use: they are loaded when they are used.

confluent-kafka imports asyncio for clients that the commands have no use for, which is half of what `odradek topics
list` would cost. Python's own `LazyLoader` does not help: it loads a module as soon as another imports it.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class DeferredModule(ModuleType):
    """Stands for a module until somebody asks it for a name; from then on it has all that the module has."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        vars(self).update(vars(importlib.import_module(self.__name__)))
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


def defer(name: str) -> None:
    """Have the module of this name, unless it is loaded already, loaded when it is used."""
    sys.modules.setdefault(name, DeferredModule(name))
