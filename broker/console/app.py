"""The console's requests: who may ask, which page is asked for, and the HTML that a thread makes of it.

Import it late and off the loop, as it loads the templates' library.

What protects its users: the templates escape every value, and write characters that nobody would see as escapes; the
browser is told to run no script and to load no style but ours (`HEADERS`). Links have no path in front, so that the
console also works behind a proxy's prefix.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import structlog
from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from broker.authorization.console_table import ASKED_BY_ACTIONS, ASKED_BY_PAGES, PageRights
from broker.config.structured import trusted_proxies
from broker.console import formats
from broker.console.acls import acls
from broker.console.actions import ACTIONS, act, done_text
from broker.console.ask import MOST, Ask, Few, Values
from broker.console.audit import DONE, Audit
from broker.console.audit_page import audit, noted
from broker.console.change_topics import new_topic
from broker.console.clients import clients, journal, kit
from broker.console.cluster import cluster, overview
from broker.console.configs import broker_configs, topic_configs
from broker.console.download import download
from broker.console.groups import group, groups, transaction, transactions
from broker.console.history import History
from broker.console.login import Logins, Origin, origin_of
from broker.console.messages import message, messages
from broker.console.movements import movements
from broker.console.produce import produce
from broker.console.registry import AnyRegistry, Known, OwnRegistry, Registry
from broker.console.schemas import schema, schemas
from broker.console.tail import MOST_FILTERED, MOST_FILTERED_OF_ONE_USER, MOST_OF_ONE_USER, MOST_TAILS, tail
from broker.console.tier import tier
from broker.console.tokens import tokens
from broker.console.topics import topic, topics
from broker.console.users import quotas, users
from broker.http.bodies import BodyError, read_form
from broker.http.hosts import KnownHosts
from broker.node import Node
from broker.security.permissions import Permissions
from broker.testkit.control.budget import Budget, SpentError, to_the_end
from broker.testkit.control.endpoint import ControlError
from protocol.errors import KafkaError


class Page(NamedTuple):
    """A page: the function that gives the values of its template, which is called as the page is, and its title.

    `under` is the path of the page in whose link it is marked, for one that has no link of its own.
    """

    values: Callable[[Ask], Awaitable[Values]]
    title: str
    under: str = ""


async def nothing(_ask: Ask) -> Values:
    """What a page of links needs."""
    return {}


PAGES: Mapping[str, Page] = {
    "": Page(overview, "Overview"),
    "topics": Page(topics, "Topics"),
    "topic": Page(topic, "Topic", "topics"),
    "new-topic": Page(new_topic, "New topic", "topics"),
    "topic-configs": Page(topic_configs, "Configuration of a topic", "topics"),
    "messages": Page(messages, "Messages", "topics"),
    "message": Page(message, "Message", "topics"),
    "produce": Page(produce, "Produce", "topics"),
    "schemas": Page(schemas, "Schemas"),
    "schema": Page(schema, "Schema", "schemas"),
    "groups": Page(groups, "Groups"),
    "group": Page(group, "Group", "groups"),
    "transactions": Page(transactions, "Transactions"),
    "transaction": Page(transaction, "Transaction", "transactions"),
    "clients": Page(clients, "Clients"),
    "cluster": Page(cluster, "Cluster"),
    "broker-configs": Page(broker_configs, "Configuration of brokers", "cluster"),
    "movements": Page(movements, "Replicas that move, and leaders", "cluster"),
    "tier": Page(tier, "Tiered storage", "cluster"),
    "access": Page(nothing, "Access"),
    "acls": Page(acls, "ACLs", "access"),
    "users": Page(users, "Users", "access"),
    "quotas": Page(quotas, "Quotas", "access"),
    "tokens": Page(tokens, "Delegation tokens", "access"),
    "audit": Page(audit, "Audit"),
    "kit": Page(kit, "Test kit"),
    "journal": Page(journal, "Journal"),
}
"""The pages by path. What they ask of the authorizer is in `broker.authorization.console_table`."""

NAVIGATION = [
    (path or "./", page.title, [path, *(each for each, other in PAGES.items() if path and other.under == path)])
    for path, page in PAGES.items()
    if not page.under
]
"""The links of every page: address, text, and the paths at which the link is marked."""


logger = structlog.get_logger(__name__)

FOLDER = Path(__file__).parent
LARGEST_LOGIN_BYTES = 4096
STATIC = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}

MOST_HTML = 8 << 20
"""Characters of a page. What it shows is bounded; this holds where somebody forgot to."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


SENT = ("download", "tail")
"""What is sent as it is made: it would be sent after the head that is asked for, too."""

HERE = "127.0.0.1"
"""The address of a browser that has come by a socket without addresses."""


class Failure(NamedTuple):
    """A form that was refused, and why."""

    action: str
    text: str
    form: Mapping[str, str]


class App:
    def __init__(self, node: Node, history: History) -> None:
        self._node = node
        self._history = history
        self._cookie = f"odradek_{node.node_id}"  # a browser keeps cookies by host, whatever the port
        self._logins = Logins(node)
        self._proxies = trusted_proxies(node.local.config)
        self._hosts = KnownHosts(node.local.config, node.bound.hosts)
        url = node.local.config.optional_string("odradek.console.schema.registry")
        self._registry = Registry(url) if url else None
        self._known_schemas = Known()
        self.audit = Audit()
        self.searches = Few("searches", 2, 1)
        self.tails = Few("browsers that follow a topic", MOST_TAILS, MOST_OF_ONE_USER)
        self.filtered_tails = Few(
            "browsers that follow a topic with a filter", MOST_FILTERED, MOST_FILTERED_OF_ONE_USER
        )
        self.downloads = Few("downloads", 2, 1)
        self._static = {name: (FOLDER / "static" / name).read_bytes() for name in STATIC}
        self._templates = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            finalize=formats.visible,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(formats.FILTERS)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        try:
            answer = await self._answer(request)
        except (ControlError, KafkaError, SpentError) as error:
            answer = await self._failed(*_refusal(error))
        except BodyError as error:
            answer = await self._failed(str(error), error.status)
        except Exception:
            logger.exception("unexpected error in the console", path=request.path)
            answer = await self._failed("unexpected error: the broker's log says what it is", 500)
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        name = request.path.lstrip("/")
        if name.removeprefix("static/") in STATIC:
            name = name.removeprefix("static/")
            return web.Response(body=self._static[name], content_type=STATIC[name], charset="utf-8")
        self._check_host(request)
        origin = self._origin(request)
        if request.method == "POST":
            return await to_the_end(self._post(request, name, origin))
        if request.method != "GET" and (request.method != "HEAD" or name in SENT):
            raise ControlError(f"{request.method} is not served here: expected GET or POST", status=405)
        if name == "login":
            return await self._login_page()
        if name not in ASKED_BY_PAGES:
            raise ControlError(f"there is no page /{name}", status=404)
        ask = self._ask(request, origin.address, ASKED_BY_PAGES[name])
        if ask is None:
            return _to("login")
        ask.rights.check_needed(ask.given)
        if name == "download":
            return await download(ask, request, self.downloads)
        if name == "tail":
            with self.tails.one(ask.rights.user):
                again = partial(self._ask, request, origin.address, ASKED_BY_PAGES[name])
                return await tail(again, request, self._render, self.filtered_tails)
        values = {"title": PAGES[name].title, **await PAGES[name].values(ask)}
        return await self._show(name or "overview", values, ask, name)

    def _check_host(self, request: web.Request) -> None:
        """Refuse names that a page elsewhere may have pointed at this address, as it could read everything then."""
        if not self._logins.required and (problem := self._hosts.problem(request)):
            raise ControlError(problem, status=421)

    def _origin(self, request: web.Request) -> Origin:
        """Where the request comes from: of consequence only where users log in. Raises ControlError."""
        return origin_of(request, self._proxies) if self._logins.required else Origin("", request.secure)

    def _ask(self, request: web.Request, address: str, asked: PageRights) -> Ask | None:
        """What is asked; None for somebody who has to log in first."""
        rights = self._logins.rights(request.cookies.get(self._cookie), address)
        if rights is None:
            return None
        return Ask(
            self._node,
            request.query,
            rights.of(asked),
            self._history,
            self._registry_for(rights.permissions),
            Budget(MOST),
            searches=self.searches,
            address=address or request.remote or HERE,
            audit=self.audit,
        )

    def _registry_for(self, permissions: Permissions | None) -> AnyRegistry | None:
        """The node's own registry, if there may be schemas in it; else the one that a setting names."""
        port = self._node.registry
        if port is not None and (port.urls or port.in_use):
            return OwnRegistry(port, permissions, self._known_schemas)
        return self._registry

    # -- what changes something

    async def _post(self, request: web.Request, name: str, came_from: Origin) -> web.StreamResponse:
        """Do what a form asks. Nothing is read from somebody who is not known, but the few bytes of a login."""
        origin = request.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != request.headers.get("Host"):
            raise ControlError("the form comes from another site", status=403)
        if name == "login":
            return await self._log_in(await read_form(request, LARGEST_LOGIN_BYTES), came_from)
        if name == "logout":
            self._logins.end(request.cookies.get(self._cookie))
            answer = _to("login")
            answer.del_cookie(self._cookie)
            return answer
        if name not in ASKED_BY_ACTIONS:
            raise ControlError(f"there is nothing to do at /{name}", status=404)
        ask = self._ask(request, came_from.address, ASKED_BY_ACTIONS[name])
        if ask is None:
            return _to("login")
        ask = replace(ask, given=await read_form(request, ACTIONS[name].most_bytes))
        outcome = "unexpected error"
        try:
            place = await act(ask, name)
            outcome = DONE
        except (ControlError, KafkaError, SpentError) as error:
            outcome, status = _refusal(error)
            failure = Failure(name, outcome, ask.given)
            return await self._again(request, came_from.address, failure, status) or await self._failed(outcome, status)
        finally:
            self.audit.note(noted(ask, name, ACTIONS[name].told, outcome))
        return _to(place)

    async def _again(self, request: web.Request, address: str, failure: Failure, status: int) -> web.Response | None:
        """The page with the form, which says what was wrong and keeps what was typed; None if it cannot be shown."""
        action = ACTIONS[failure.action]
        fresh = self._ask(request, address, ASKED_BY_PAGES[action.page])
        if fresh is None or not fresh.can_write:  # pages have no forms then
            return None
        given = {name: failure.form[field] for name, field in action.shows.items() if failure.form.get(field)}
        ask = replace(fresh, given=given)
        try:
            ask.rights.check_needed(given)
            values = {"title": PAGES[action.page].title, **await PAGES[action.page].values(ask)}
        except (ControlError, KafkaError, SpentError):
            return None
        return await self._show(action.page, {**values, "failure": failure}, ask, action.page, status)

    async def _log_in(self, form: Mapping[str, str], came_from: Origin) -> web.StreamResponse:
        token = await self._logins.begin(form.get("user", ""), form.get("password", ""), came_from.address)
        if token is None:
            return await self._login_page("Wrong name or password.", 401)
        answer = _to("./")
        answer.set_cookie(self._cookie, token, httponly=True, samesite="Strict", secure=came_from.is_secure)
        return answer

    # -- HTML

    async def _failed(self, error: str, status: int) -> web.Response:
        return await self._show("error", {"title": "Not shown", "error": error}, status=status)

    async def _login_page(self, error: str | None = None, status: int = 200) -> web.Response:
        values = {"title": "Log in", "error": error, "users": self._logins.users}
        return await self._show("login", values, status=status)

    async def _show(
        self, template: str, of_page: Values, ask: Ask | None = None, name: str = "", status: int = 200
    ) -> web.Response:
        values = {
            "navigation": NAVIGATION,
            "here": name,
            "query": {} if ask is None else {key: one for key, one in ask.given.items() if key != "done"},
            "user": None if ask is None else ask.rights.user,
            "node_id": self._node.node_id,
            "can_write": ask is not None and ask.can_write,
            "done": "" if ask is None else done_text(ask.text("done")),
            "now_ms": self._node.local.clock.wall_ms(),
            "failure": None,
            **of_page,
        }
        values["typed"] = partial(_typed, values["failure"])
        # The values are plain: a thread can render them while the loop serves clients.
        budget = Budget(MOST) if ask is None else ask.budget
        html = await budget.run(self._node, lambda: self._render(f"{template}.html", values, budget))
        return web.Response(text=html, content_type="text/html", status=status)

    def _render(self, template: str, values: Mapping[str, Any], budget: Budget) -> str:
        """Any thread. Half of a surrogate pair, which JSON may have and no page, is shown as its escape.

        Raises SpentError.
        """
        parts: list[str] = []
        left = MOST_HTML
        for written in self._templates.get_template(template).generate(values):
            part = written.encode(errors="backslashreplace").decode()
            left -= len(part)
            if left < 0 or budget.is_over:
                raise SpentError
            parts.append(part)
        return "".join(parts)


def _refusal(error: ControlError | KafkaError | SpentError) -> tuple[str, int]:
    """What a page says, and the status of the answer."""
    if isinstance(error, ControlError):
        return str(error), error.status
    if isinstance(error, KafkaError):
        return f"{error.code.name.upper()}: {error}", 503
    return "this page would cost more than a page may: ask for less", 413


def _typed(failure: Failure | None, action: str, field: str, default: object = "") -> object:
    """What a field of a form has: what was typed into it, if that was refused."""
    return failure.form.get(field, "") if failure is not None and failure.action == action else default


def _to(place: str) -> web.Response:
    """Send the browser to another page."""
    return web.Response(status=303, headers={"Location": place})
