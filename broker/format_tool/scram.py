"""`--add-scram`: users with a SCRAM credential from the start (Kafka's `ScramParser`, KIP-900)."""

from __future__ import annotations

import binascii
import hashlib
from base64 import b64decode
from random import Random
from typing import Any

from controller.quorum.format import FormatError
from controller.scram import MAX_ITERATIONS, MIN_ITERATIONS, SALT_BYTES, SCRAM_MECHANISMS, Upsertion, credential

_NAMES = ("name", "salt", "iterations", "password", "saltedpassword")


def scram_record(argument: str, random: Random) -> Any:
    """The record of an argument such as `SCRAM-SHA-256=[name=alice,password=secret]`. Raises FormatError."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise FormatError("The argument of add-scram is no text in UTF-8") from None
    mechanism, parts = _parse(argument.strip())
    number = SCRAM_MECHANISMS[mechanism]
    name, iterations = parts.get("name"), _iterations(parts.get("iterations"), mechanism)
    if not name:
        raise FormatError("You must supply 'name' to add-scram")
    salt = _decoded("salt", parts["salt"]) if "salt" in parts else random.randbytes(SALT_BYTES)
    if "password" in parts:
        salted = hashlib.pbkdf2_hmac(number.digest, parts["password"].encode(), salt, iterations)
    elif "saltedpassword" not in parts:
        raise FormatError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    elif "salt" not in parts:
        raise FormatError("You must supply 'salt' with 'saltedpassword' to add-scram")
    else:
        salted = _decoded("saltedpassword", parts["saltedpassword"])
    return credential(Upsertion(name, number, iterations, salt, salted))


def _parse(argument: str) -> tuple[str, dict[str, str]]:
    """The mechanism, and the values by name."""
    mechanism, equals, rest = argument.partition("=")
    if not equals:
        raise FormatError(f"Failed to find equals sign in SCRAM argument '{argument}'")
    if mechanism not in SCRAM_MECHANISMS:
        raise FormatError(f"The add-scram mechanism {mechanism} is not supported.")
    if not (rest.startswith("[") and rest.endswith("]")):
        raise FormatError("Expected the configuration of add-scram in brackets: MECHANISM=[name=...,password=...]")
    parts = {}
    for part in rest[1:-1].split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise FormatError(f"No equals sign found in SCRAM component: {part}")
        parts[name] = value[1:-1] if len(value) >= 2 and value[0] == value[-1] == '"' else value
    unknown = [name for name in parts if name not in _NAMES]
    if unknown:
        raise FormatError(f"Unknown SCRAM configurations: {', '.join(unknown)}")
    return mechanism, parts


def _iterations(text: str | None, mechanism: str) -> int:
    try:
        iterations = MIN_ITERATIONS if text is None else int(text)
    except ValueError as error:
        raise FormatError(f"Failed to parse iterations count: {text}") from error
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise FormatError(f"The 'iterations' value must be from {MIN_ITERATIONS} to {MAX_ITERATIONS} for {mechanism}")
    return iterations


def _decoded(name: str, text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error as error:
        raise FormatError(f"Failed to decode given {name}: {text}") from error
