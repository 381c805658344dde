"""Requests whose bytes do not fit their schema."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tests.conformance import schema

LEFT_OVER, CUT, TAGGED, VERSION, OTHER_HEADER, NULL, BELOW_NULL, LARGE_VARINT, NOT_UTF8 = KINDS = range(9)
OVERWRITES = {
    NULL: struct.pack(">i", -1),
    BELOW_NULL: struct.pack(">i", -2),
    LARGE_VARINT: b"\xff\xff\xff\xff\x0f",
    NOT_UTF8: b"\xed\xa0",
}


@dataclass(frozen=True, slots=True)
class Damage:
    """One way to damage a request, at some fraction of it."""

    kind: int
    where: float

    def __call__(self, request: schema.Request, flexible: bool) -> tuple[schema.Request, bool]:
        api, _, body = request
        at = int(self.where * len(body))
        if self.kind == TAGGED and flexible and body.endswith(b"\0"):
            return request._replace(body=body[:-1] + b"\x01\x63\x02xx"), flexible
        if self.kind == VERSION:
            return request._replace(version=max(schema.versions_of(api)) + 7 if self.where < 0.5 else -1), flexible
        if self.kind == OTHER_HEADER:
            return request, not flexible
        if self.kind in OVERWRITES:
            put = OVERWRITES[self.kind]
            return request._replace(body=body[:at] + put + body[at + len(put) :]), flexible
        if self.kind == CUT:
            return request._replace(body=body[:at]), flexible
        return request._replace(body=body + b"left over"), flexible
