"""The bodies of requests: the only place that reads them. A handler says how much it is ready to read.

A body is text in UTF-8 or is refused, whatever charset it names: a client could choose a codec that takes seconds, or
that gives text which cannot be written again. For the same reason nothing is decompressed.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any
from urllib.parse import parse_qsl

from aiohttp.web import BaseRequest, RequestPayloadError

from odradek.schemas.json_text import json_of

FORM = "application/x-www-form-urlencoded"
TIME_S = 30.0
"""In which a body must be there, whole."""

MOST_FIELDS = 100
_UTF_8 = ("utf-8", "utf8", "us-ascii")
_HALF_OF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


class BodyError(Exception):
    """A body that is not taken; `status` is that of the response."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


async def read_text(request: BaseRequest, most_bytes: int) -> str:
    """The body. Raises BodyError."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise BodyError("the body has a Content-Encoding: send it as it is", 415)
    if _content_type(request)[1] not in _UTF_8:
        raise BodyError("the body must be text in UTF-8")
    try:
        async with asyncio.timeout(TIME_S):
            body = await _read(request, most_bytes)
    except TimeoutError:
        raise BodyError(f"the body did not come within {TIME_S:g} s", 408) from None
    except (RequestPayloadError, ConnectionError) as error:
        raise BodyError("the body is not whole") from error
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise BodyError("the body must be text in UTF-8") from error


async def read_form(request: BaseRequest, most_bytes: int) -> dict[str, str]:
    """The fields of a form, as browsers send them by default. Raises BodyError."""
    text = await read_text(request, most_bytes)
    if text and _content_type(request)[0] != FORM:
        raise BodyError(f"the body must be a form, {FORM}", 415)
    try:
        fields = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except UnicodeDecodeError as error:
        raise BodyError("the form must be text in UTF-8") from error
    except ValueError as error:
        raise BodyError(f"the form has more than {MOST_FIELDS} fields") from error
    return dict(fields)


async def read_json(request: BaseRequest, most_bytes: int) -> Any:
    """The value of the body; None if it is empty. Raises BodyError."""
    text = await read_text(request, most_bytes)
    if not text:
        return None
    try:
        value = json_of(text)
        if _HALF_OF_A_PAIR.search(text):  # JSON can name half of a pair of surrogates, which is no character
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise BodyError("the body has half of a surrogate pair, which is no character") from error
    except ValueError as error:
        raise BodyError(f"the body is no JSON: {error}") from error
    return value


def _content_type(request: BaseRequest) -> tuple[str, str]:
    """The type of the body, and its charset. (The library's parser, e-mail's, takes half a second for some headers.)"""
    kind, *parameters = request.headers.get("Content-Type", "").lower().split(";")
    given = (parameter.partition("=") for parameter in parameters)
    charsets = [value.strip(' "') for name, _, value in given if name.strip() == "charset"]
    return kind.strip(), charsets[0] if charsets else "utf-8"


async def _read(request: BaseRequest, most_bytes: int) -> bytearray:
    too_large = BodyError(f"the body is larger than {most_bytes} bytes", 413)
    if (request.content_length or 0) > most_bytes:
        raise too_large
    body = bytearray()
    while not request.content.at_eof():
        body += await request.content.readany()
        if len(body) > most_bytes:
            raise too_large
    return body
