"""The schema registry without a client: its address, its schemas, and what is to go wrong.

It begins to listen when it is asked for, and answers with all rights, whoever the users are. Clients use its address.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Any

from broker.faults.registry_calls import Call
from broker.faults.spec import Drop
from broker.network.server import ListenError
from broker.node import Node
from broker.testkit.control.endpoint import ControlError, Endpoints, Kind, Parameter, Values
from broker.testkit.control.faults import described, refusing, the_faults
from broker.testkit.control.schemas import ask
from odradek.schemas.rest import setting_path, subject_path

ENDPOINTS = Endpoints()

_ALL_ADDRESSES = re.compile(r"//(0\.0\.0\.0|\[::\]):")

Json = dict[str, Any]

SUBJECT = Parameter("subject", Kind.STRING, "the subject, such as orders-value", required=True)
VERSION = Parameter("version", Kind.STRING, "a version's number, or latest", required=True)
SCHEMA = (
    Parameter("schema", Kind.STRING, "the schema's text", required=True),
    Parameter("type", Kind.STRING, "AVRO (if not given), JSON or PROTOBUF", choices=("AVRO", "JSON", "PROTOBUF")),
    Parameter("references", Kind.ARRAY, "each an object with name, subject and version (-1: the latest)"),
    Parameter("normalize", Kind.BOOLEAN, "true: what has no order is put in order first"),
)


@ENDPOINTS(
    "POST /registry",
    "Let the schema registry listen, if it does not yet; `url` is where.",
    Parameter("host", Kind.STRING, "the IP address to listen at (127.0.0.1), such as 0.0.0.0 in a container"),
    Parameter("port", Kind.INTEGER, "the port (0: any that is free)", least=0),
)
async def _begin(node: Node, values: Values) -> Json:
    if node.registry is None:
        raise ControlError("this node is no broker, and has no schema registry", status=409)
    try:
        urls = await node.registry.begin(*_listener(values))
    except ListenError as error:
        raise ControlError(str(error), status=409) from error
    reachable = [_reachable(node, url) for url in urls]
    return {"url": reachable[0], "urls": reachable}


@ENDPOINTS("GET /registry", "Where the schema registry listens; nowhere unless it was asked for.")
def _where(node: Node, _values: Values) -> Json:
    return {"urls": [] if node.registry is None else [_reachable(node, url) for url in node.registry.urls]}


@ENDPOINTS("GET /registry/subjects", "The names of all subjects.")
async def _subjects(node: Node, _values: Values) -> Json:
    return {"subjects": await ask(node, "GET", "/subjects")}


@ENDPOINTS("GET /registry/subjects/{subject}", "The versions of a subject, and the level that counts for it.", SUBJECT)
async def _subject(node: Node, values: Values) -> Json:
    subject = values["subject"]
    versions = await ask(node, "GET", subject_path(subject, "versions"))
    level = await ask(node, "GET", setting_path("config", subject), defaultToGlobal="true")
    return {"subject": subject, "versions": versions, "compatibility": level["compatibilityLevel"]}


@ENDPOINTS("GET /registry/subjects/{subject}/versions/{version}", "A version of a subject.", SUBJECT, VERSION)
async def _version(node: Node, values: Values) -> Any:
    return await ask(node, "GET", subject_path(values["subject"], "versions", values["version"]))


@ENDPOINTS("POST /registry/subjects/{subject}", "Register a schema; the same again has the same id.", SUBJECT, *SCHEMA)
async def _register(node: Node, values: Values) -> Any:
    subject, query = values["subject"], _query(values, "normalize")
    found = await ask(node, "POST", subject_path(subject, "versions"), _body(values), **query)
    version = await ask(node, "POST", subject_path(subject), _body(values), **query)
    return {"id": found["id"], "subject": subject, "version": version["version"]}


@ENDPOINTS(
    "POST /registry/subjects/{subject}/check",
    "Whether a schema may follow the latest version, or those that the level names.",
    SUBJECT,
    *SCHEMA,
)
async def _check(node: Node, values: Values) -> Json:
    path, query = subject_path(values["subject"], "versions"), {"verbose": "true", **_query(values, "normalize")}
    found = await ask(node, "POST", f"/compatibility{path}", _body(values), **query)
    return {"compatible": found["is_compatible"], "messages": found.get("messages") or []}


@ENDPOINTS(
    "DELETE /registry/subjects/{subject}",
    "Delete a subject, or one version of it.",
    SUBJECT,
    Parameter("version", Kind.STRING, "a version's number, or latest; all if it is not given"),
    Parameter("permanent", Kind.BOOLEAN, "true: its ids are not found any more, either"),
)
async def _delete(node: Node, values: Values) -> Json:
    subject = values["subject"]
    path = subject_path(subject)
    if "version" in values:  # the latest would be another one after the first of two deletes
        version = await ask(node, "GET", subject_path(subject, "versions", values["version"]), deleted="true")
        path = subject_path(subject, "versions", version["version"])
    if values.get("permanent"):
        await ask(node, "DELETE", path, missing=None)  # softly first, if it is not yet
        deleted = await ask(node, "DELETE", path, permanent="true")
    else:
        deleted = await ask(node, "DELETE", path)
    return {"versions": deleted if isinstance(deleted, list) else [deleted]}


@ENDPOINTS(
    "POST /registry/compatibility",
    "Set the compatibility level of a subject, or of all.",
    Parameter("subject", Kind.STRING, "the subject; all that have no level of their own if it is not given"),
    Parameter("level", Kind.STRING, "such as BACKWARD, FULL_TRANSITIVE or NONE", required=True),
)
async def _set_level(node: Node, values: Values) -> Any:
    return await ask(node, "PUT", setting_path("config", values.get("subject")), {"compatibility": values["level"]})


@ENDPOINTS(
    "GET /registry/schemas/{id}",
    "A schema by its id.",
    Parameter("id", Kind.INTEGER, "the schema's id", required=True),
)
async def _schema(node: Node, values: Values) -> Any:
    return await ask(node, "GET", f"/schemas/ids/{values['id']}")


@ENDPOINTS(
    "POST /registry/faults",
    "Set a fault of the registry's clients; it is listed, waited for and removed as others are.",
    Parameter("call", Kind.STRING, "what is asked; absent: anything", choices=tuple(Call)),
    Parameter("subject", Kind.STRING, "only what names this subject"),
    Parameter("error", Kind.INTEGER, "answer with this status (503) or Confluent's code (50001)", least=400),
    Parameter("delay", Kind.NUMBER, "wait so many seconds first", least=0),
    Parameter("drop", Kind.STRING, "lose the request or the reply, and close the connection", choices=tuple(Drop)),
    Parameter("observe", Kind.BOOLEAN, "only count the request"),
    Parameter("skip", Kind.INTEGER, "how many matching requests to leave alone first", least=0),
    Parameter("count", Kind.INTEGER, "how many requests to strike then; absent: all", least=1),
)
def _set_fault(node: Node, values: Values) -> Json:
    return described(refusing(lambda: the_faults(node).registry.set(values)))


def _listener(values: Values) -> tuple[str, int]:
    host, port = values.get("host", "127.0.0.1"), values.get("port", 0)
    if port > 65535:
        raise ControlError(f"port: expected at most 65535, got {port}", parameter="port")
    try:
        ip_address(host)
    except ValueError as error:
        raise ControlError(f"host: expected an IP address, got {host!r}", parameter="host") from error
    return host, port


def _reachable(node: Node, url: str) -> str:
    """The URL for clients: where it listens at all addresses, with the host that the broker advertises."""
    host = node.bound.hosts[0]
    return _ALL_ADDRESSES.sub(f"//{f'[{host}]' if ':' in host else host}:", url)


def _query(values: Values, *names: str) -> dict[str, str]:
    return {name: str(values[name]).lower() for name in names if name in values}


def _body(values: Values) -> Json:
    references = {"references": values["references"]} if "references" in values else {}
    return {"schema": values["schema"], "schemaType": values.get("type", "AVRO"), **references}
