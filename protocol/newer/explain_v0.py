"""Explain 0, which Kafka has not: why nothing is read, of a group, a topic or a transactional id."""

from __future__ import annotations

from datetime import timedelta

from kio.schema.errors import ErrorCode

from .declare import of, request, response


@request(31001, 0)
class ExplainRequest:
    """`kind` is group, topic or transaction."""

    kind: str = of("string")
    name: str = of("string")


@response(31001, 0, nested=True)
class ExplainFinding:
    severity: str = of("string")
    rule: str = of("string")
    text: str = of("string")
    advice: str = of("string")


@response(31001, 0)
class ExplainResponse:
    throttle_time: timedelta = of("timedelta_i32")
    error_code: ErrorCode = of("error_code")
    error_message: str | None = of("string", default=None)
    findings: tuple[ExplainFinding, ...] = ()


REQUEST, RESPONSE = ExplainRequest, ExplainResponse
