"""DeleteGroups 3: the answer has a message for each group."""

from __future__ import annotations

from datetime import timedelta

from kio.schema.errors import ErrorCode

from .declare import of, request, response


@request(42, 3)
class DeleteGroupsRequest:
    groups_names: tuple[str, ...] = of("string")


@response(42, 3, nested=True)
class DeletableGroupResult:
    group_id: str = of("string")
    error_code: ErrorCode = of("error_code")
    error_message: str | None = of("string", default=None)


@response(42, 3)
class DeleteGroupsResponse:
    throttle_time: timedelta = of("timedelta_i32")
    results: tuple[DeletableGroupResult, ...]


REQUEST, RESPONSE = DeleteGroupsRequest, DeleteGroupsResponse
