"""A hook of mkdocs: links to files outside of docs/ become their names, as the site has only the pages."""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([^)#]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page's text without such links (mkdocs' event of this name)."""
    return _OUTSIDE.sub(_named, markdown)


def _named(found: re.Match[str]) -> str:
    text, path = found.groups()
    return text if path in text else f"{text} (`{path}`)"
