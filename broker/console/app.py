"""The console's requests: who may ask, which page is asked for, and the HTML that a thread makes of it.

Import it late and off the loop, as it loads the templates' library.

What protects its users: the templates escape every value, and the browser is told to run no script and to load no style
but ours (`HEADERS`). Links have no path in front, so that the console also works behind a proxy's prefix.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from broker.console import formats
from broker.console.actions import ACTIONS, act
from broker.console.ask import Ask, Page
from broker.console.history import History
from broker.console.hosts import is_known_host
from broker.console.login import Logins
from broker.console.messages import tail
from broker.console.pages import NAVIGATION, PAGES
from broker.console.registry import Registry
from broker.control.endpoint import ControlError
from broker.node import Node
from protocol.errors import KafkaError

logger = structlog.get_logger(__name__)

FOLDER = Path(__file__).parent
STATIC = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class App:
    def __init__(self, node: Node, history: History) -> None:
        self._node = node
        self._history = history
        self._cookie = f"odradek_{node.node_id}"  # a browser keeps cookies by host, whatever the port
        self._logins = Logins(node)
        url = node.local.config.optional_string("odradek.console.schema.registry")
        self._registry = Registry(url) if url else None
        self._static = {name: (FOLDER / "static" / name).read_bytes() for name in STATIC}
        self._templates = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(formats.FILTERS)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        try:
            answer = await self._answer(request)
        except ControlError as error:
            answer = await self._failed(request, str(error), error.status)
        except KafkaError as error:
            answer = await self._failed(request, f"{error.code.name.upper()}: {error}", 503)
        except web.HTTPException as error:  # of the library, as for a form that is too large
            answer = await self._failed(request, error.reason, error.status)
        except Exception as error:
            logger.exception("unexpected error in the console", path=request.path)
            answer = await self._failed(request, f"unexpected error, see the broker's log: {error!r}", 500)
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        name = request.path.lstrip("/")
        if name.removeprefix("static/") in STATIC:
            name = name.removeprefix("static/")
            return web.Response(body=self._static[name], content_type=STATIC[name], charset="utf-8")
        self._check_host(request)
        if request.method == "POST":
            return await self._post(request, name)
        if request.method not in ("GET", "HEAD"):
            raise ControlError(f"{request.method} is not served here: expected GET or POST", status=405)
        if name == "login":
            return await self._show(request, Page("login.html", "Log in", {"error": None, "users": self._logins.users}))
        page = PAGES.get(name)
        if page is None and name != "tail":
            raise ControlError(f"there is no page /{name}", status=404)
        ask = self._ask(request)
        if ask is None:
            return _to("login")
        if page is None:
            return await tail(ask, request, self._render)
        page.check(ask)
        return await self._show(request, await page.show(ask), ask, name)

    def _check_host(self, request: web.Request) -> None:
        """Refuse names that a page elsewhere may have pointed at this address, as it could read everything then."""
        names = self._node.local.config.list_("odradek.console.hosts")
        if not self._logins.required and not is_known_host(request.host, names):
            raise ControlError(
                f"{request.host!r} is not a name of this console: use its address, or name it in odradek.console.hosts",
                status=421,
            )

    def _ask(self, request: web.Request) -> Ask | None:
        """What is asked; None for somebody who has to log in first."""
        rights = self._logins.rights(request.cookies.get(self._cookie), request.remote or "")
        return None if rights is None else Ask(self._node, request.query, rights, self._history, self._registry)

    # -- what changes something

    async def _post(self, request: web.Request, name: str) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != request.host:
            raise ControlError("the form comes from another site", status=403)
        form = await _form_of(request)
        if name == "login":
            return await self._log_in(request, form)
        if name == "logout":
            self._logins.end(request.cookies.get(self._cookie))
            answer = _to("login")
            answer.del_cookie(self._cookie)
            return answer
        ask = self._ask(request)
        if ask is None:
            return _to("login")
        if name not in ACTIONS:
            raise ControlError(f"there is nothing to do at /{name}", status=404)
        return _to(await act(ask, name, form))

    async def _log_in(self, request: web.Request, form: Mapping[str, str]) -> web.StreamResponse:
        token = await self._logins.begin(form.get("user", ""), form.get("password", ""))
        if token is None:
            page = Page("login.html", "Log in", {"error": "Wrong name or password.", "users": self._logins.users})
            return await self._show(request, page, status=401)
        answer = _to("./")
        answer.set_cookie(self._cookie, token, httponly=True, samesite="Strict", secure=request.secure)
        return answer

    # -- HTML

    async def _failed(self, request: web.Request, error: str, status: int) -> web.Response:
        return await self._show(request, Page("error.html", "Not shown", {"error": error}), status=status)

    async def _show(
        self, request: web.Request, page: Page, ask: Ask | None = None, name: str = "", status: int = 200
    ) -> web.Response:
        values = {
            "title": page.title,
            "navigation": NAVIGATION,
            "here": name,
            "user": None if ask is None else ask.rights.user,
            "node_id": self._node.node_id,
            "can_write": ask is not None and ask.can_write,
            "done": "" if ask is None else ask.text("done"),
            "now_ms": self._node.local.clock.wall_ms(),
            **page.values,
        }
        # The values are plain: a thread can render them while the loop serves clients.
        html = await asyncio.to_thread(self._render, page.template, values)
        return web.Response(text=html, content_type="text/html", status=status)

    def _render(self, template: str, values: Mapping[str, Any]) -> str:
        """Any thread. Half of a surrogate pair, which JSON may have and no page, is shown as its escape."""
        text = self._templates.get_template(template).render(values)
        return text.encode(errors="backslashreplace").decode()


async def _form_of(request: web.Request) -> dict[str, str]:
    """The texts of a form. Raises ControlError for bytes that are none."""
    try:
        fields = await request.post()
    except (ValueError, LookupError) as error:  # no UTF-8, or a charset that nobody knows
        raise ControlError(f"this is no form: {error}") from error
    return {key: value for key, value in fields.items() if isinstance(value, str)}


def _to(place: str) -> web.Response:
    """Send the browser to another page."""
    return web.Response(status=303, headers={"Location": place})
