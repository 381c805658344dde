"""Values with a JSON Schema. They are plain JSON, so reading them needs no schema; what is written must fit it.

References are by URI: the name of a reference, or the `$id` of what it refers to.
"""

from __future__ import annotations

import json
from typing import Any

from .codecs import check_length, plain
from .errors import MissingLibraryError, SchemaError
from .framing import Framed
from .json_text import json_of
from .lookup import JSON, Source


class JsonCodec:
    kind = JSON
    front = b""

    def __init__(self, source: Source, longest: int) -> None:
        self._source = source
        self._longest = longest
        self._validator: Any = None

    def decode(self, framed: Framed) -> Any:
        check_length(framed.payload, self._longest)
        try:
            return json_of(framed.payload)
        except ValueError as error:
            raise SchemaError(f"the value is no JSON: {error}") from error

    def encode(self, value: Any) -> bytes:
        try:
            value = plain(value)
        except (ValueError, TypeError) as error:
            raise SchemaError(f"the value is nothing for JSON: {error}") from error
        if self._validator is None:
            self._validator = self._made()
        try:
            problems = sorted(self._validator.iter_errors(value), key=lambda problem: list(map(str, problem.path)))
        except Exception as error:  # the library's for references that lead nowhere; a schema is a stranger's
            raise SchemaError(f"the schema cannot be applied: {error}") from error
        if problems:
            place = ".".join(map(str, problems[0].absolute_path)) or "the value"
            raise SchemaError(f"does not fit the schema: {place}: {problems[0].message[:300]}")
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")

    def _made(self) -> Any:
        try:
            from jsonschema.validators import Draft7Validator, validator_for
            from referencing import Registry
            from referencing.jsonschema import DRAFT7
        except ImportError as error:
            raise MissingLibraryError("A value by a JSON Schema") from error
        try:
            schema = json.loads(self._source.text)
            known = Registry()
            for name, text in self._source.needed.items():
                content = json.loads(text)
                names = {name, content.get("$id", name) if isinstance(content, dict) else name}
                for each in names:
                    known = known.with_resource(each, DRAFT7.create_resource(content))
        except ValueError as error:
            raise SchemaError(f"the schema is no JSON: {error}") from error
        return validator_for(schema, default=Draft7Validator)(schema, registry=known)


def make(source: Source, _message: str | None, longest: int) -> JsonCodec:
    return JsonCodec(source, longest)
