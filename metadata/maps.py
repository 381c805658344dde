"""The maps of an image: they are replaced, and never changed.

`immutables.Map` shares what is the same between a map and the one that replaces it. It has no wheel for Python 3.14
yet; there a plain map does, which copies: slower, and only so where there are thousands of topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from immutables import Map
else:
    try:
        from immutables import Map
    except ImportError:
        from metadata.plain_map import Map

__all__ = ["Map"]
