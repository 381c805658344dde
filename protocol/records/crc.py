"""CRC-32C, from the package `crc32c`: its compiled module alone.

The package itself asks for its own version when it is imported, for which the library loads a parser of mail, and it
loads its command line: 33 modules, a twentieth of a start.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec

Crc = Callable[..., int]


def _compiled() -> Crc | None:
    """The function of the compiled module; None where the package is made in another way."""
    package = find_spec("crc32c")
    places = None if package is None else package.submodule_search_locations
    spec = None if places is None else PathFinder.find_spec("_crc32c", list(places))
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Crc | None = getattr(module, "crc32c", None)
    return found


def _of_package() -> Crc:
    from crc32c import crc32c as found

    return found


crc32c: Crc = _compiled() or _of_package()
