"""The mechanisms of a listener, made of its settings: how each begins a conversation.

The users of PLAIN and SCRAM are in `odradek.users.file` and `odradek.users`, a line `name:password` each, besides those
of JAAS lines and of the metadata.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping
from functools import partial
from pathlib import Path

import structlog

from broker.config.listener_settings import USERS, USERS_FILE, ListenerSettings, LoginModule, parse_jaas
from broker.security.sasl.conversations import (
    OAUTHBEARER,
    Begin,
    OAuthBearerConversation,
    PlainConversation,
    ScramConversation,
    Validate,
)
from broker.security.sources import FindCredential, Found, SecurityError, Sources, user_credential
from controller.scram import SCRAM_MECHANISMS, stretched

KEY = "odradek.users.file"


def read_users(location: str) -> dict[str, str]:
    """Passwords by name, out of a file. Blocking, any thread. Raises SecurityError."""
    try:
        text = Path(location).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SecurityError(f"{KEY} = {location!r}: the file cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SecurityError(f"{KEY} = {location!r}: expected a text in UTF-8") from error
    return parse_users(f"{KEY} = {location!r}", text)


def parse_users(where: str, text: str) -> dict[str, str]:
    """Passwords by name. Blank lines and those that begin with # do not count. Raises SecurityError.

    Only `\\n` and `\\r\\n` end a line: what else Unicode has for that may be in a password.
    """
    users: dict[str, str] = {}
    for number, line in enumerate(re.split(r"\r?\n", text), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not colon or not name.strip() or not password:
            raise SecurityError(f"{where}: expected name:password in line {number}")
        users[name.strip()] = password
    return users


logger = structlog.get_logger(__name__)

_USER_OPTION = "user_"


def make_mechanisms(settings: ListenerSettings, sources: Sources) -> Mapping[str, Begin]:
    """The enabled mechanisms by name, in the order of the setting. Blocking, any thread. Raises SecurityError."""
    return {name: _begin(settings, name, sources) for name in settings.list_("sasl.enabled.mechanisms")}


def _begin(settings: ListenerSettings, name: str, sources: Sources) -> Begin:
    if name == "PLAIN":
        return partial(PlainConversation, _plain_users(settings))
    if name == OAUTHBEARER:
        return partial(OAuthBearerConversation, _validator(settings, sources))
    return partial(ScramConversation, name, _scram_users(settings, name, sources), sources.random)


def _scram_users(settings: ListenerSettings, name: str, sources: Sources) -> FindCredential:
    """The users of the metadata, and those of the settings that the metadata lacks."""
    mechanism = SCRAM_MECHANISMS[name]
    of_settings = {
        user: user_credential(stretched(user, mechanism, password, sources.scram_salt(mechanism, user)))
        for user, password in _users_of_settings(settings).items()
    }

    def find(user: str, is_token: bool) -> Found | Awaitable[Found]:
        found = sources.find_scram(mechanism, user, is_token)
        return of_settings.get(user) if found is None and not is_token else found

    return find


def _users_of_settings(settings: ListenerSettings) -> dict[str, str]:
    location, text = settings.text(USERS_FILE), settings.text(USERS)
    users = read_users(location) if location else {}
    return users | parse_users(settings.name_of(USERS), text) if text else users


def _plain_users(settings: ListenerSettings) -> dict[str, str]:
    """The users of the file and the settings, and of the JAAS line, which counts if both have a user."""
    options = _module(settings, "PLAIN").options
    return _users_of_settings(settings) | {
        option.removeprefix(_USER_OPTION): value for option, value in options.items() if option.startswith(_USER_OPTION)
    }


def _module(settings: ListenerSettings, mechanism: str) -> LoginModule:
    """The login module of the mechanism; one without options if there is no line."""
    line = settings.own("sasl.jaas.config", mechanism)
    return parse_jaas(line) if line else LoginModule("", {})


def _validator(settings: ListenerSettings, sources: Sources) -> Validate:
    name = OAUTHBEARER
    url = settings.text("sasl.oauthbearer.jwks.endpoint.url", name)
    if url is None:
        return _unsecured(settings, sources)
    from broker.security.sasl.jwks import Jwks, Refresh
    from broker.security.sasl.signed_tokens import Expectations, SignedTokens

    prefix = "sasl.oauthbearer.jwks.endpoint"
    refresh = Refresh(
        settings.integer(f"{prefix}.refresh.ms", name),
        settings.integer(f"{prefix}.retry.backoff.ms", name),
        settings.integer(f"{prefix}.retry.backoff.max.ms", name),
    )
    expected = Expectations(
        settings.list_("sasl.oauthbearer.expected.audience", name),
        settings.text("sasl.oauthbearer.expected.issuer", name),
        settings.integer("sasl.oauthbearer.clock.skew.seconds", name),
        settings.text("sasl.oauthbearer.scope.claim.name", name) or "scope",
        settings.text("sasl.oauthbearer.sub.claim.name", name) or "sub",
    )
    keys = Jwks(url, refresh, sources.clock, sources.workers)
    return SignedTokens(keys, expected, sources.clock.wall_ms).validate


def _unsecured(settings: ListenerSettings, sources: Sources) -> Validate:
    from broker.security.sasl.unsecured_tokens import UnsecuredTokens

    key = settings.key("sasl.jaas.config", OAUTHBEARER)
    logger.warning("tokens without a signature are taken: anybody can make one", listener=settings.listener)
    try:
        return UnsecuredTokens(_module(settings, OAUTHBEARER).options, sources.clock.wall_ms).validate
    except ValueError as error:
        raise SecurityError(f"{key}: expected a number of milliseconds: {error}") from error
