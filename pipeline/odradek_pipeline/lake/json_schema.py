"""From a JSON Schema to a struct. Of the language (2020-12, and drafts before) only what describes shapes is read.

References within the document, and to documents that are at hand, are followed. `[null, T]`, written as types or as
alternatives, is T; `allOf` is all of its properties. What has no one type, other alternatives and what contains itself
for instance, is kept as JSON text in a STRING.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping
from typing import Any

from pyspark.sql import types as T

ALTERNATIVES = ("oneOf", "anyOf")


def struct_of(document: Any, needed: Mapping[str, str] | None = None) -> T.StructType:
    """The columns of an object schema; what is `required` is not nullable. `needed`: texts of other documents, by name.

    Raises ValueError for a schema whose values are no objects with properties, and for a reference that leads nowhere.
    """
    found = _Walk(needed or {}).type_of(document, document, "", ())
    if not isinstance(found, T.StructType):
        raise ValueError("not an object schema with properties")
    return found


class _Walk:
    """A walk through a document and those it refers to; `inside` are the references that led to where it is."""

    def __init__(self, needed: Mapping[str, str]) -> None:
        self._needed = needed
        self._known: dict[str, Any] = {}

    def type_of(self, node: Any, root: Any, path: str, inside: tuple[str, ...]) -> T.DataType:
        node, root, inside = self._resolved(node, root, path, inside)
        if not isinstance(node, dict):
            return T.StringType()
        if any(word in node for word in ALTERNATIVES):
            return T.StringType()
        match _type_name(node):
            case "object" | None if node.get("properties"):
                return self._struct(node, root, path, inside)
            case "object" if isinstance(node.get("additionalProperties"), dict):
                return T.MapType(T.StringType(), self.type_of(node["additionalProperties"], root, path, inside))
            case "array" if isinstance(node.get("items"), dict):
                return T.ArrayType(self.type_of(node["items"], root, path, inside))
            case "string":
                formats: dict[str, T.DataType] = {"date-time": T.TimestampType(), "date": T.DateType()}
                return formats.get(node.get("format", ""), T.StringType())
            case "integer":
                return T.LongType()
            case "number":
                return T.DoubleType()
            case "boolean":
                return T.BooleanType()
        return T.StringType()

    def _struct(self, node: dict[str, Any], root: Any, path: str, inside: tuple[str, ...]) -> T.StructType:
        required = set(node.get("required", ()))
        fields = []
        for name, part in node["properties"].items():
            kind = self.type_of(part, root, f"{path}.{name}" if path else name, inside)
            may_be_null = name not in required or self._may_be_null(part, root, inside)
            fields.append(T.StructField(name, kind, nullable=may_be_null))
        return T.StructType(fields)

    def _resolved(self, node: Any, root: Any, path: str, inside: tuple[str, ...]) -> tuple[Any, Any, tuple[str, ...]]:
        """The node without references, `allOf` and alternatives with null; what contains itself is no node."""
        while isinstance(node, dict):
            reference = node.get("$ref")
            alternatives = next((node[word] for word in ALTERNATIVES if isinstance(node.get(word), list)), None)
            if isinstance(reference, str):
                node, root, key = self._referred(reference, root, path)
                if key in inside:
                    return None, root, inside
                inside = (*inside, key)
            elif alternatives is not None:
                kept = [each for each in alternatives if not _is_null(each)]
                if len(kept) != 1:
                    return node, root, inside
                node = kept[0]
            elif isinstance(node.get("allOf"), list):
                node = self._merged(node, root, path, inside)
            else:
                break
        return node, root, inside

    def _merged(self, node: dict[str, Any], root: Any, path: str, inside: tuple[str, ...]) -> Any:
        """An object with the properties of all parts; what has parts that are no objects has no one type."""
        parts = [{name: value for name, value in node.items() if name != "allOf"}]
        for each in node["allOf"]:
            part, other, _ = self._resolved(each, root, path, inside)
            if not isinstance(part, dict) or other is not root or any(word in part for word in ALTERNATIVES):
                return None
            parts.append(part)
        properties: dict[str, Any] = {}
        for part in parts:
            properties |= part.get("properties", {})
        if not properties:
            return parts[1] if len(parts) == 2 else None
        required = [name for part in parts for name in part.get("required", ())]
        return {"type": "object", "properties": properties, "required": required}

    def _referred(self, reference: str, root: Any, path: str) -> tuple[Any, Any, str]:
        """What a reference leads to, the document that it is in, and a name for it."""
        place, _, pointer = reference.partition("#")
        if place:
            if place not in self._needed:
                raise ValueError(f"{path}: the references have no {place!r}")
            root = self._known.setdefault(place, json.loads(self._needed[place]))
        node = root
        for step in filter(None, urllib.parse.unquote(pointer).split("/")):
            name = step.replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(name)] if isinstance(node, list) else node[name]
            except (KeyError, IndexError, TypeError, ValueError):
                raise ValueError(f"{path}: of references, {reference!r} leads nowhere") from None
        return node, root, f"{id(root)}#{pointer}"

    def _may_be_null(self, node: Any, root: Any, inside: tuple[str, ...]) -> bool:
        seen = 0
        while isinstance(node, dict) and isinstance(node.get("$ref"), str) and seen < 50:
            node, root, _ = self._referred(node["$ref"], root, "")
            seen += 1
        if not isinstance(node, dict):
            return True
        alternatives = [each for word in ALTERNATIVES for each in node.get(word, ())]
        return _is_null(node) or any(self._may_be_null(each, root, inside) for each in alternatives)


def _is_null(node: Any) -> bool:
    """Whether null is all right, as its type or as one of its types."""
    types = node.get("type", ()) if isinstance(node, dict) else ()
    return types == "null" or (isinstance(types, list) and "null" in types) if types else False


def _type_name(node: dict[str, Any]) -> str | None:
    """The one type beside null; None if there is none, or several."""
    types = node.get("type", [])
    names = [name for name in ([types] if isinstance(types, str) else types) if name != "null"]
    return names[0] if len(names) == 1 else None
