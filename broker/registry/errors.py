"""What goes wrong, with Confluent's error codes: the first three digits of a code are the status of the answer."""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """Confluent's codes (`io.confluent.kafka.schemaregistry.rest.exceptions.Errors`)."""

    NOT_FOUND = 404
    METHOD_NOT_ALLOWED = 405
    UNSUPPORTED_MEDIA_TYPE = 415
    UNPROCESSABLE = 422
    TOO_MANY = 429
    BAD_REQUEST = 400
    UNAUTHORIZED = 40101
    FORBIDDEN = 40301
    SUBJECT_NOT_FOUND = 40401
    VERSION_NOT_FOUND = 40402
    SCHEMA_NOT_FOUND = 40403
    SUBJECT_SOFT_DELETED = 40404
    SUBJECT_NOT_SOFT_DELETED = 40405
    VERSION_SOFT_DELETED = 40406
    VERSION_NOT_SOFT_DELETED = 40407
    NO_LEVEL_OF_SUBJECT = 40408
    NO_MODE_OF_SUBJECT = 40409
    INCOMPATIBLE_SCHEMA = 40901
    INVALID_SCHEMA = 42201
    INVALID_VERSION = 42202
    INVALID_LEVEL = 42203
    INVALID_MODE = 42204
    NOT_PERMITTED = 42205
    REFERENCE_EXISTS = 42206
    INVALID_SUBJECT = 42208
    TOO_LARGE = 42209
    INVALID_RULES = 42210
    STORE_ERROR = 50001
    TIMEOUT = 50002
    FORWARDING_FAILED = 50003
    NO_LEADER = 50004


class RegistryError(Exception):
    """A request that is refused."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        """The status of HTTP."""
        return self.code if self.code < 1000 else self.code // 100


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(Code.SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryError:
    return RegistryError(Code.VERSION_NOT_FOUND, f"Version {'latest' if version < 0 else version} not found.")


def schema_not_found(which: object = None) -> RegistryError:
    return RegistryError(Code.SCHEMA_NOT_FOUND, "Schema not found" if which is None else f"Schema {which} not found")


def invalid_schema(reason: str) -> RegistryError:
    return RegistryError(Code.INVALID_SCHEMA, reason)


def not_permitted(reason: str) -> RegistryError:
    return RegistryError(Code.NOT_PERMITTED, reason)
