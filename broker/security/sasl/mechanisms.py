"""The mechanisms of a listener, made of its settings: how each begins a conversation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random

import structlog

from broker.config.jaas import LoginModule, parse_jaas
from broker.config.listener_settings import USERS, USERS_FILE, ListenerSettings
from broker.security.errors import SecurityError
from broker.security.sasl import oauthbearer
from broker.security.sasl.conversation import Begin
from broker.security.sasl.plain import PlainConversation
from broker.security.sasl.scram import FindCredential, Found, ScramConversation, user_credential
from broker.security.sasl.users_file import parse_users, read_users
from controller.scram import SCRAM_MECHANISMS, ScramMechanism, stretched
from storage.workers import Workers
from timing.clock import Clock

logger = structlog.get_logger(__name__)

_USER_OPTION = "user_"


@dataclass(frozen=True, slots=True)
class Sources:
    """What the mechanisms ask.

    Attributes:
        find_scram: the credential of a user; if the last argument is true, of the delegation token with that id.
        scram_salt: that of a user of the settings, which is always the same.
        workers: where keys of tokens are read.
    """

    clock: Clock
    random: Random
    workers: Workers
    find_scram: Callable[[ScramMechanism, str, bool], Found | Awaitable[Found]]
    scram_salt: Callable[[ScramMechanism, str], bytes]


def make_mechanisms(settings: ListenerSettings, sources: Sources) -> Mapping[str, Begin]:
    """The enabled mechanisms by name, in the order of the setting. Blocking, any thread. Raises SecurityError."""
    return {name: _begin(settings, name, sources) for name in settings.list_("sasl.enabled.mechanisms")}


def _begin(settings: ListenerSettings, name: str, sources: Sources) -> Begin:
    if name == "PLAIN":
        return partial(PlainConversation, _plain_users(settings))
    if name == oauthbearer.MECHANISM:
        return partial(oauthbearer.OAuthBearerConversation, _validator(settings, sources))
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
    return users | parse_users(settings.found(USERS), text) if text else users


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


def _validator(settings: ListenerSettings, sources: Sources) -> oauthbearer.Validate:
    name = oauthbearer.MECHANISM
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


def _unsecured(settings: ListenerSettings, sources: Sources) -> oauthbearer.Validate:
    from broker.security.sasl.unsecured_tokens import UnsecuredTokens

    key = settings.key("sasl.jaas.config", oauthbearer.MECHANISM)
    logger.warning("tokens without a signature are taken: anybody can make one", listener=settings.listener)
    try:
        return UnsecuredTokens(_module(settings, oauthbearer.MECHANISM).options, sources.clock.wall_ms).validate
    except ValueError as error:
        raise SecurityError(f"{key}: expected a number of milliseconds: {error}") from error
