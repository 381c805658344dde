"""Settings of the HTTP port about who may come: trusted proxies, and whose users log in at the console."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from broker.config.broker_config import BrokerConfig, split_list
from broker.config.controllers import LISTENER_NAMES, inter_broker_listener
from broker.config.listener_settings import ListenerSettings
from broker.config.listeners import Listener, Listeners

PROXIES = "odradek.http.trusted.proxies"
LOGIN_LISTENERS = "odradek.console.login.listeners"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def trusted_proxies(config: BrokerConfig) -> list[Network]:
    """Raises ValueError for what is neither an address nor a network."""
    return [ipaddress.ip_network(text, strict=False) for text in config.list_(PROXIES)]


def why_no_logins(config: BrokerConfig, listener: Listener, *, is_only_one: bool) -> str | None:
    """Why users of this listener never log in at the console, by the settings; None if they may.

    A password alone is not enough where clients have to show a certificate too, and nodes are no users. What brokers
    use is for clients as well if it is the only one.
    """
    if listener.name in {name.upper() for name in split_list(config.optional_string(LISTENER_NAMES) or "")}:
        return "it is for controllers"
    if not is_only_one and listener.name == inter_broker_listener(config):
        return "it is for brokers"
    if not listener.uses_sasl:
        return "its clients have no passwords"
    if listener.uses_tls and ListenerSettings(config, listener.name).text("ssl.client.auth") == "required":
        return "its clients have to show certificates"
    return None


def broken_http_rules(config: BrokerConfig, listeners: Listeners) -> Iterator[str]:
    """What is wrong with these settings, a line each."""
    for text in config.list_(PROXIES):
        try:
            ipaddress.ip_network(text, strict=False)
        except ValueError:
            yield f"{PROXIES} = {text!r}: expected an address or a network such as 10.0.0.0/8"
    known = {one.name: one for one in (*listeners.bound, *listeners.controllers, *listeners.left_out)}
    for name in config.list_(LOGIN_LISTENERS):
        found = known.get(name.upper())
        why = "there is no such listener"
        if found is not None:
            why = why_no_logins(config, found, is_only_one=len(listeners.bound) == 1) or ""
        if why:
            yield f"{LOGIN_LISTENERS} = {name!r}: expected a listener whose users have passwords; {why}"
