"""What the settings must have for a node to come to other nodes over listeners with TLS or SASL."""

from __future__ import annotations

from collections.abc import Iterator

from broker.config.broker_config import BrokerConfig
from broker.config.jaas import JaasError, parse_jaas
from broker.config.listener_settings import ListenerSettings
from broker.config.listeners import Listener

INTER_BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"
CONTROLLER_MECHANISM = "sasl.mechanism.controller.protocol"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""The mechanisms by which a node logs in at another node."""


def outgoing_problems(config: BrokerConfig, listener: Listener, setting: str) -> Iterator[str]:
    """What is wrong for connections to listeners such as this; `setting` names the mechanism."""
    if not listener.uses_sasl:
        return
    mechanism = config.string(setting)
    if mechanism not in MECHANISMS:
        yield f"{setting} = {mechanism!r}: expected one of {', '.join(MECHANISMS)}, for the listener {listener.name}"
        return
    settings = ListenerSettings(config, listener.name)
    key = settings.key("sasl.jaas.config", mechanism)
    line = settings.text("sasl.jaas.config", mechanism)
    try:
        options = parse_jaas(line).options if line else {}
    except JaasError as error:
        yield f"{key} = [hidden]: {error}"
        return
    if not options.get("username") or not options.get("password"):
        yield f"{key}: expected a login module with username and password, by which this node logs in at other nodes"
