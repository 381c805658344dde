"""The OpenAPI document of the control interface, made of the table of endpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker.control.endpoint import Endpoint, Kind, Parameter

VERSION = "3.1.0"


def document(endpoints: Iterable[Endpoint], version: str) -> dict[str, Any]:
    """The document as JSON values; `version` is that of Odradek."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(f"/control{endpoint.path}", {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": VERSION,
        "info": {"title": "Odradek's control interface", "version": version},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    in_path = [one for one in endpoint.parameters if f"{{{one.name}}}" in endpoint.path]
    others = [one for one in endpoint.parameters if one not in in_path]
    has_body = endpoint.method in ("POST", "PUT")
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "parameters": [_parameter(one, "path") for one in in_path],
        "responses": {
            "200": {"description": "Done.", "content": {"application/json": {}}},
            "4XX": {"description": "The error: `error` is a sentence, `parameter` the name of what is wrong."},
        },
    }
    if has_body and others:
        schema = {
            "type": "object",
            "properties": {one.name: _schema(one) for one in others},
            "required": [one.name for one in others if one.required],
            "additionalProperties": False,
        }
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    elif not has_body:
        operation["parameters"] += [_parameter(one, "query") for one in others]
    return operation


def _parameter(parameter: Parameter, place: str) -> dict[str, Any]:
    schema = _schema(parameter)
    return {
        "name": parameter.name,
        "in": place,
        "description": schema.pop("description"),
        "required": parameter.required or place == "path",
        "schema": schema,
    }


def _schema(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _type(parameter.kind), "description": parameter.doc}
    if parameter.kind is Kind.ARRAY:
        schema["items"] = {}
    if parameter.choices:
        schema["enum"] = list(parameter.choices)
    if parameter.least is not None:
        schema["minimum"] = parameter.least
    return schema


def _type(kind: Kind) -> str | list[str]:
    return ["string", "integer"] if kind is Kind.STRING_OR_INTEGER else kind.value
