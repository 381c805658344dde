"""A schema registry (Confluent's REST interface), asked by the driver. What does not answer is told apart from a no.

A registry that is away comes back: whoever asks waits and asks again. An answer that says no is one, and is kept.
"""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import click

ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
TIMEOUT_S = 10.0
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
SETTINGS = (
    "basic.auth.user.info",
    "bearer.auth.token",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
"""What `--registry-config` takes, by the names that Confluent's clients have for it."""

NOT_FOUND = (404, 422)
REFUSED = (401, 403)


class RegistryAway(Exception):  # noqa: N818 - it is no error of anybody's: it is waited for
    """No registry answered, or it said that it cannot answer now."""


class RegistryRefused(click.ClickException):
    """The registry does not let this user see or do this, or what was asked makes no sense to it."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """`needed`: the texts that it refers to, by the name it has for each, in an order in which each is after its own.

    `id` None: the registry did not tell, or there is none, as for a file. `message`: of Protobuf, the one that values
    are; empty: the first.
    """

    kind: str
    text: str
    id: int | None = None
    needed: Mapping[str, str] = field(default_factory=dict)
    message: str = ""


class Registry:
    """`urls`: one or more, with commas; each is asked until one answers. Raises UsageError for bad settings."""

    def __init__(self, urls: str, settings: Mapping[str, str] | None = None) -> None:
        given = dict(settings or {})
        self._urls: list[str] = []
        self._headers = {"Accept": ACCEPT, "Content-Type": "application/vnd.schemaregistry.v1+json"}
        for url in filter(None, (part.strip() for part in urls.split(","))):
            split = urllib.parse.urlsplit(url)
            if split.scheme not in ("http", "https") or not split.hostname:
                raise click.UsageError(f"--registry {url}: expected http://HOST:PORT or https://HOST:PORT")
            if split.username is not None:
                user = f"{urllib.parse.unquote(split.username)}:{urllib.parse.unquote(split.password or '')}"
                given.setdefault("basic.auth.user.info", user)
            plain = split._replace(netloc=split.netloc.rpartition("@")[2])
            self._urls.append(urllib.parse.urlunsplit(plain).rstrip("/"))
        if "basic.auth.user.info" in given:
            user = base64.b64encode(given["basic.auth.user.info"].encode()).decode()
            self._headers["Authorization"] = f"Basic {user}"
        elif "bearer.auth.token" in given:
            self._headers["Authorization"] = f"Bearer {given['bearer.auth.token']}"
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=_tls(given)), urllib.request.ProxyHandler({})
        )
        self.name = ", ".join(self._urls)

    def by_id(self, schema_id: int, subject: str) -> RegisteredSchema | None:
        """The schema with an id, in the context of a subject; None if there is none."""
        answer = self._ask(f"/schemas/ids/{schema_id}", subject=subject)
        return None if answer is None else self._whole(answer, schema_id)

    def by_guid(self, guid: str) -> RegisteredSchema | None:
        answer = self._ask(f"/schemas/guids/{guid}")
        if answer is None:
            return None
        known = self._ask(f"/schemas/guids/{guid}/ids") or []
        return self._whole(answer, min((each["id"] for each in known), default=None))

    def latest(self, subject: str) -> RegisteredSchema | None:
        answer = self._ask(f"/subjects/{_quoted(subject)}/versions/latest")
        return None if answer is None else self._whole(answer, answer["id"])

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        """The id of a schema in a subject, where it is from now on. Raises RegistryRefused."""
        body = {"schema": schema.text, "schemaType": schema.kind}
        answer = self._ask(f"/subjects/{_quoted(subject)}/versions", body)
        if answer is None:
            raise RegistryRefused(f"the registry at {self.name} does not register schemas of {subject}")
        return int(answer["id"])

    def _whole(self, answer: Mapping[str, Any], schema_id: int | None) -> RegisteredSchema:
        kind = answer.get("schemaType") or AVRO
        needed: dict[str, str] = {}
        self._need(answer, needed, 0)
        return RegisteredSchema(kind, answer["schema"], schema_id, needed)

    def _need(self, answer: Mapping[str, Any], needed: dict[str, str], depth: int) -> None:
        """Add what a schema refers to, directly or not."""
        for reference in answer.get("references") or ():
            if reference["name"] in needed or depth > 50:
                continue
            way = f"/subjects/{_quoted(reference['subject'])}/versions/{reference['version']}"
            found = self._ask(way, deleted="true")
            if found is None:
                raise RegistryRefused(
                    f"the registry at {self.name} has a schema that refers to version {reference['version']} of "
                    f"{reference['subject']}, and does not have that"
                )
            self._need(found, needed, depth + 1)
            needed[reference["name"]] = found["schema"]

    def _ask(self, way: str, body: object = None, **query: str) -> Any:
        """The answer; None if it is that there is no such thing. Raises RegistryAway, RegistryRefused."""
        asked = f"{way}?{urllib.parse.urlencode(query)}" if query else way
        content = None if body is None else json.dumps(body).encode()
        away = "no URL was given"
        for url in self._urls:
            request = urllib.request.Request(url + asked, content, self._headers)  # noqa: S310 - http or https
            try:
                with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                told = _told(error)
                if error.code == 404 and body is None:
                    return None
                if error.code in REFUSED:
                    raise RegistryRefused(f"the registry at {url} refuses {way}: {told} (HTTP {error.code})") from None
                if error.code < 500 and error.code not in (408, 429):
                    raise RegistryRefused(f"the registry at {url} does not take {way}: {told}") from None
                away = f"{url}: {told}"
            except (OSError, ValueError) as error:
                away = f"{url}: {getattr(error, 'reason', None) or error}"
        raise RegistryAway(away)


def check_settings(settings: Mapping[str, str]) -> None:
    """Raises UsageError for a setting that there is not."""
    if strange := settings.keys() - set(SETTINGS):
        raise click.UsageError(f"--registry-config {min(strange)}: not one of {', '.join(SETTINGS)}")


def _told(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return f"HTTP {error.code}"


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


def _tls(settings: Mapping[str, str]) -> ssl.SSLContext:
    """Raises UsageError for a file that cannot be read or is none of its kind."""
    try:
        context = ssl.create_default_context(cafile=settings.get("ssl.ca.location"))
        if certificate := settings.get("ssl.certificate.location"):
            context.load_cert_chain(certificate, settings.get("ssl.key.location"), settings.get("ssl.key.password"))
    except (OSError, ssl.SSLError) as error:
        raise click.UsageError(f"--registry-config ssl.*: {error}") from None
    return context
