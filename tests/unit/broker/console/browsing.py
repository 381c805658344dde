"""Asks a node in memory for pages of its console, through aiohttp's own application, and looks at their HTML."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from broker.console.app import App
from broker.console.history import History
from tests.unit.broker.rig import Rig


class Html(HTMLParser):
    """A page: `elements` has each tag with its attributes, `text` what a reader sees.

    `areas` has the content of the text areas by name, `selected` what is chosen in the lists.
    """

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.areas: dict[str, str] = {}
        self.selected: dict[str, str] = {}
        self._texts: list[str] = []
        self._area: str | None = None
        self._list: str | None = None
        self._is_chosen = False
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        if tag == "textarea":
            self._area = attributes["name"] or ""
            self.areas[self._area] = ""
        elif tag == "select":
            self._list = attributes["name"] or ""
        elif tag == "option" and self._list is not None:
            self._is_chosen = "selected" in attributes or self._list not in self.selected

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._area is not None:
            self.areas[self._area] = self.areas[self._area].removeprefix("\n")  # as browsers do
            self._area = None
        elif tag == "select":
            self._list = None

    def handle_data(self, data: str) -> None:
        self._texts.append(data)
        if self._area is not None:
            self.areas[self._area] += data
        if self._list is not None and self._is_chosen:
            self.selected[self._list] = data
            self._is_chosen = False

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._texts).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def headings(self) -> list[tuple[str | None, str]]:
        """The headings of tables that sort: how the table is sorted by it, and where it leads."""
        return [
            (one.get("aria-sort"), link["href"] or "")
            for (_, one), (tag, link) in pairwise(self.elements)
            if one.get("scope") == "col" and tag == "a"
        ]

    def links(self) -> list[str]:
        return [one["href"] or "" for one in self.all("a")]


class Browser:
    def __init__(self, session: aiohttp.ClientSession, app: App) -> None:
        self.session = session
        self.app = app

    async def get(self, path: str, status: int = 200, **options: Any) -> Html:
        async with self.session.get(path, allow_redirects=False, **options) as answer:
            source = await answer.text()
            assert answer.status == status, source
            return Html(source)

    async def post(self, path: str, status: int = 303, /, **form: str) -> str:
        """The place to which a form leads, or the text of the page that refuses it."""
        async with self.session.post(path, data=form, allow_redirects=False) as answer:
            source = await answer.text()
            assert answer.status == status, source
            return answer.headers.get("Location") or Html(source).text


@asynccontextmanager
async def browsing(rig: Rig, history: History | None = None) -> AsyncIterator[Browser]:
    app, console = web.Application(), App(rig.node, history or History(rig.node))
    app.router.add_route("*", "/{path:.*}", console.answer)
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of an address too, as browsers keep them
    async with TestServer(app) as server, aiohttp.ClientSession(server.make_url("/"), cookie_jar=jar) as session:
        yield Browser(session, console)
