"""A client of a schema registry, by Confluent's REST interface and the standard library.

A registry that is away (`RegistryAway`) may come back, so whoever asks may ask again; one that says no
(`RegistryRefused`) says it again. What answers and is none, such as a proxy before one that is away, is away too.
`RegistryClient.ask` is what `lookup.run` takes. Threads may share a client.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlencode, urlsplit

from .errors import SchemaError

ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
TIMEOUT_S = 30.0
LARGEST_ANSWER = 64 << 20
USER_INFO, TOKEN, AUTHORITY = "basic.auth.user.info", "bearer.auth.token", "ssl.ca.location"
CERTIFICATE, KEY, KEY_PASSWORD = "ssl.certificate.location", "ssl.key.location", "ssl.key.password"
SETTINGS = (USER_INFO, TOKEN, AUTHORITY, CERTIFICATE, KEY, KEY_PASSWORD)
"""What a client may be told, by the names that Confluent's clients have for it."""

LATER = (408, 429)
"""Statuses, besides those from 500 on, after which the same request may be answered."""

SHOWN = 200


class RegistryAway(SchemaError):  # noqa: N818 - it is nobody's error
    """No registry answers, or it cannot answer now."""


class RegistryRefused(SchemaError):  # noqa: N818 - it is an answer
    """The registry's answer is no. `status` is that of HTTP, `code` the registry's error code, 0 if it has none."""

    def __init__(self, message: str, status: int, code: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class _Address(NamedTuple):
    url: str
    is_secure: bool
    host: str
    port: int
    path: str


class RegistryClient:
    """`urls` are one or several, with commas: the next is asked where one does not answer. `settings` are `SETTINGS`.

    Raises ValueError for urls and settings that make no sense.
    """

    def __init__(self, urls: str, settings: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> None:
        given = dict(settings or {})
        for name in given:
            if name not in SETTINGS:
                raise ValueError(f"{name} is no setting of a schema registry: expected {', '.join(SETTINGS)}")
        self._addresses = [_address(url.strip(), given) for url in urls.split(",") if url.strip()]
        if not self._addresses:
            raise ValueError("the URL of the schema registry is empty")
        self._headers = {"Accept": ACCEPT, "Content-Type": CONTENT_TYPE, **_login(given)}
        self._tls = _tls(given) if any(one.is_secure for one in self._addresses) else None
        self._timeout_s = timeout_s
        self._kept: dict[str, http.client.HTTPConnection] = {}

    @property
    def name(self) -> str:
        """The URLs, without names and passwords."""
        return ", ".join(one.url for one in self._addresses)

    def ask(self, path: str) -> Any:
        """The JSON of an answer; None for what the registry does not have. Raises RegistryAway, RegistryRefused."""
        try:
            return self.send("GET", path)
        except RegistryRefused as error:
            if error.status == 404 and error.code != 404:  # that is a path which the registry does not know
                return None
            raise

    def send(self, method: str, path: str, body: object = None, **query: object) -> Any:
        """The JSON of an answer. A value None of the query is left out. Raises RegistryAway, RegistryRefused."""
        given = {name: _as_text(value) for name, value in query.items() if value is not None}
        asked = f"{path}?{urlencode(given)}" if given else path
        content = None if body is None else json.dumps(body).encode()
        reasons = []
        for address in self._addresses:
            try:
                status, answer = self._exchange(address, method, address.path + asked, content)
            except (OSError, http.client.HTTPException) as error:
                reasons.append(f"{address.url}: {_reason(error)}")
                if method != "GET" and isinstance(error, TimeoutError):  # it may have been done
                    break
                continue
            try:
                return _read(address, status, answer)
            except RegistryAway as error:
                reasons.append(str(error))
        raise RegistryAway("; ".join(reasons))

    def _exchange(self, address: _Address, method: str, path: str, content: bytes | None) -> tuple[int, bytes]:
        """Status and body. A kept connection that the registry has closed is replaced."""
        kept = self._kept.pop(address.url, None)
        if kept is not None:
            try:
                return self._on(kept, address, method, path, content)
            except (http.client.RemoteDisconnected, ConnectionError):
                kept.close()
        return self._on(self._connection(address), address, method, path, content)

    def _connection(self, address: _Address) -> http.client.HTTPConnection:
        if address.is_secure:
            return http.client.HTTPSConnection(address.host, address.port, timeout=self._timeout_s, context=self._tls)
        return http.client.HTTPConnection(address.host, address.port, timeout=self._timeout_s)

    def _on(
        self, connection: http.client.HTTPConnection, address: _Address, method: str, path: str, content: bytes | None
    ) -> tuple[int, bytes]:
        try:
            connection.request(method, path, content, self._headers)
            response = connection.getresponse()
            answer = response.read(LARGEST_ANSWER + 1)
        except BaseException:
            connection.close()
            raise
        if len(answer) > LARGEST_ANSWER:
            connection.close()
            raise RegistryRefused(f"{address.url} has sent more than {LARGEST_ANSWER >> 20} MiB", response.status)
        if self._kept.setdefault(address.url, connection) is not connection:  # another thread's
            connection.close()
        return response.status, answer

    def close(self) -> None:
        """Close the connections; the next request opens a new one."""
        for connection in self._kept.values():
            connection.close()
        self._kept.clear()


def _address(url: str, settings: dict[str, str]) -> _Address:
    """The parts of a URL; a name and a password in it go to `settings`. Raises ValueError."""
    expected = "expected http://HOST:PORT or https://HOST:PORT"
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise ValueError(f"{url}: {error}: {expected}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{url}: {expected}")
    if parts.username is not None:
        settings.setdefault(USER_INFO, f"{unquote(parts.username)}:{unquote(parts.password or '')}")
    plain = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
    return _Address(plain, parts.scheme == "https", parts.hostname, port, parts.path.rstrip("/"))


def _login(settings: Mapping[str, str]) -> dict[str, str]:
    if USER_INFO in settings:
        if ":" not in settings[USER_INFO]:
            raise ValueError(f"{USER_INFO}: expected USER:PASSWORD")
        return {"Authorization": f"Basic {base64.b64encode(settings[USER_INFO].encode()).decode()}"}
    if TOKEN in settings:
        return {"Authorization": f"Bearer {settings[TOKEN]}"}
    return {}


def _tls(settings: Mapping[str, str]) -> ssl.SSLContext:
    """Raises ValueError for a file that cannot be read or is none of its kind."""
    try:
        context = ssl.create_default_context(cafile=settings.get(AUTHORITY))
        if CERTIFICATE in settings:
            context.load_cert_chain(settings[CERTIFICATE], settings.get(KEY), settings.get(KEY_PASSWORD, ""))
    except OSError as error:
        raise ValueError(f"{AUTHORITY}, {CERTIFICATE} or {KEY} cannot be used: {error}") from None
    return context


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate cannot be verified: {error.verify_message} ({AUTHORITY} names the authority)"
    if isinstance(error, ssl.SSLError):
        return f"no TLS is spoken there: {error.reason}"
    if isinstance(error, http.client.HTTPException):
        return f"no HTTP is spoken there: {str(error) or type(error).__name__}"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _told(status: int, answer: bytes) -> tuple[str, int]:
    """What an answer that is no success says, and its error code."""
    try:
        found = json.loads(answer)
        return f"{found['message']}", int(found.get("error_code") or 0)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return f"HTTP {status} {http.client.responses.get(status, '')}".strip(), 0


def _read(address: _Address, status: int, answer: bytes) -> Any:
    """Raises RegistryAway, RegistryRefused."""
    none_such = f"what answers at {address.url} is no schema registry: HTTP {status}, {answer[:SHOWN]!r}"
    if status >= 400:
        message, code = _told(status, answer)
        if status >= 500 or status in LATER:
            raise RegistryAway(f"{address.url}: {message}")
        if status == 404 and not code:
            raise RegistryAway(none_such)
        raise RegistryRefused(message, status, code)
    if status >= 300:
        raise RegistryRefused(f"{address.url} leads elsewhere (HTTP {status}): give the URL of the registry", status)
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        raise RegistryAway(none_such) from None
