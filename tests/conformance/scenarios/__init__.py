"""All scenarios, registered in `runner.SCENARIOS` on import; one module per API or family of APIs."""

from __future__ import annotations

import importlib
import pkgutil


def load_all() -> None:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
