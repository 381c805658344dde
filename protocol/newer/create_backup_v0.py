"""CreateBackup 0, which Kafka has not: a consistent copy of the node, in a folder of its machine."""

from __future__ import annotations

from datetime import timedelta

from kio.schema.errors import ErrorCode

from .declare import of, request, response


@request(31002, 0)
class CreateBackupRequest:
    """`path` is relative to `odradek.backup.folder`, or the whole path."""

    path: str = of("string")


@response(31002, 0)
class CreateBackupResponse:
    throttle_time: timedelta = of("timedelta_i32")
    error_code: ErrorCode = of("error_code")
    error_message: str | None = of("string", default=None)
    path: str = of("string", default="")
    size: int = of("int64", default=0)


REQUEST, RESPONSE = CreateBackupRequest, CreateBackupResponse
