"""The address of the control interface, `odradek.control`."""

from __future__ import annotations

import ipaddress

from broker.config.broker_config import BrokerConfig


def control_address(config: BrokerConfig) -> tuple[str, int] | None:
    """Host and port; None if the interface is off. Raises ValueError with a sentence that says what is wrong."""
    text = config.string("odradek.control").strip()
    if not text:
        return None
    host, colon, digits = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not digits.isdecimal() or int(digits) > 65535:
        raise ValueError(f"odradek.control = {text!r}: expected HOST:PORT, for instance 127.0.0.1:9405")
    if not _is_loopback(host) and not config.optional_string("odradek.control.token"):
        raise ValueError(
            f"odradek.control = {text!r}: expected a loopback address, or odradek.control.token to be set, "
            "since whoever reaches the port may do everything"
        )
    return host, int(digits)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
