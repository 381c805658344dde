"""Writes docs/acls.md from the table of checks: `python -m broker.authorization.document > docs/acls.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from broker.authorization.console_table import ASKED_BY_ACTIONS, ASKED_BY_PAGES, PageRight, PageRights
from broker.authorization.guard import ERRORS
from metadata.acls import ResourceType
from protocol.api.rights import Right
from protocol.api.row import Api
from protocol.api.table import API_BY_NAME, API_TABLE, CONTROLLER_ONLY, OWN_TABLE, asked_for

_INTRODUCTION = """\
# ACLs

<!-- Written by `python -m broker.authorization.document`; do not edit. -->

Without an authorizer every client may do everything. With

```
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin
```

super users may do everything, and every other principal what an ACL allows it. ACLs are made with Kafka's own tool or
any admin client; they are in the metadata, and count as soon as the answer has come:

```
kafka-acls --bootstrap-server 127.0.0.1:9092 --command-config admin.properties --add \\
  --allow-principal User:app --operation Read --operation Write --topic orders- --resource-pattern-type prefixed
kafka-acls --bootstrap-server 127.0.0.1:9092 --command-config admin.properties --list
```

or without a JVM, with a context in place of [`admin.properties`](operations.md#in-place-of-kafkas-scripts):

```
odradek acls add --principal User:app --operation read --operation write --topic orders- --prefixed
odradek acls list
```

A client of a listener without SASL and without client certificates is `User:ANONYMOUS`. So is a broker that connects to
another one, or to a controller, by a plaintext listener: it needs CLUSTER_ACTION on the cluster, or to be a super user.

- An ACL names a principal (`User:app`, or `User:*` for all), a host (an address, a network such as `10.0.0.0/8`, or
  `*`), an operation, and a resource: literally, by the beginning of its name, or all of a type (`*`).
- DENY counts before ALLOW, wherever it stands.
- READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS. A DENY implies nothing: who
  may READ with a DENY of DESCRIBE can produce and fetch, and is not told the offsets.
- With `allow.everyone.if.no.acl.found=true` a resource that no ACL concerns is open to all.
- Decisions are kept for each connection, and dropped when the ACLs change; a Fetch that waits is answered all the same.
- Refusals are logged (`not authorized`), the first ten of a connection.

## What each API asks

What a client has no right to is refused item by item, in the places where the answer has an error for each, and by name
whether it exists or not. Where several operations stand in a row, one of them is enough. \
"""

_OWN = """\

Two requests are our own: `odradek explain -b` and `odradek backup create -b` send them.
"""

_BY_CONTROLLER = """\

Requests marked with * are decided by the controller. A broker whose controllers are other nodes sends them on in an
Envelope, and the controller checks them for the client that sent them.

## What a controller's listener asks

It serves the other nodes of a cluster, which need CLUSTER_ACTION on the cluster. Requests in an Envelope are checked as
above, for the client that sent them to a broker.

"""

_TOKENS = """
## Delegation tokens

With `delegation.token.secret.key` a client that has come by SASL, or with a certificate, can have tokens made that log
in by SCRAM in its name (`kafka-delegation-tokens`). Owner and renewers may renew and end a token; not even a super user
may otherwise. Owner, requester and renewers see it, and who has DESCRIBE on the token or DESCRIBE_TOKENS on its owner.
Who came by a token gets no further ones. An owner has at most `odradek.delegation.token.max.per.owner` tokens at one
time (2000), and one more is refused with POLICY_VIOLATION. A token with more than
`odradek.delegation.token.max.renewers` renewers (100), or with more than 8192 characters in all its names, is refused
with INVALID_REQUEST.
"""


_CONSOLE = """
## What the console asks

A page or form of the [console](operations.md#console) needs what the API asks that tells or does the same, for the user
who has logged in. Without a right in brackets it shows less. What Kafka has no API for, and is about all users, needs
ALTER on the cluster: who has that could make any ACL.

| page or form | operation | on | for |
| --- | --- | --- | --- |
"""


def document() -> str:
    """The page."""
    lines = [_INTRODUCTION.rstrip(" "), "", "| API | operation | on | error |", "| --- | --- | --- | --- |"]
    for api in API_TABLE:
        lines += rows(api, api.rights)
    lines += [_OWN, "| API | operation | on | error |", "| --- | --- | --- | --- |"]
    for api in OWN_TABLE:
        lines += rows(api, api.rights)
    lines += [_BY_CONTROLLER, "| API | operation | on | error |", "| --- | --- | --- | --- |"]
    for api in (API_BY_NAME["fetch"], *CONTROLLER_ONLY):
        lines += rows(api, api.rights if api.rights_of_nodes is None else api.rights_of_nodes)
    asked = {**ASKED_BY_PAGES, **ASKED_BY_ACTIONS}
    console = "".join(f"{line}\n" for name, each in asked.items() for line in _console_rows(name, each))
    return "\n".join(lines) + "\n" + _CONSOLE + console + _TOKENS


def _console_rows(name: str, asked: PageRights) -> Iterator[str]:
    shown = f"`/{name}`"
    for right in asked.needed:
        yield f"| {shown} | {_console_operation(right)} | {_on(right)} | {right.what or 'anything'} |"
        shown = ""
    for right in asked.shown:
        yield f"| {shown} | ({_console_operation(right)}) | {_on(right)} | {right.what} |"
        shown = ""


def _console_operation(right: PageRight) -> str:
    operations, unless = asked_for(right.api, right.resource_type.name)
    names = ", ".join(operations)
    return names if unless is None else f"{names}, or {unless} on the cluster"


def _on(right: PageRight) -> str:
    each = "each " if right.named is None else "the "
    kind = right.resource_type.name.lower().replace("_", " ")
    return f"the {kind}" if right.resource_type is ResourceType.CLUSTER else f"{each}{kind}"


def rows(api: Api, rights: tuple[Right, ...]) -> Iterator[str]:
    """The lines of one API."""
    shown = api.kafka_name + ("*" if api.place == "decides" else "")
    if not rights:
        yield f"| {shown} | nothing | | |"
    for right in rights:
        unless = "" if right.unless is None else f", unless {right.unless} is allowed on the cluster"
        yield f"| {shown} | {', '.join(right.operations)} | {right.what}{unless} | {_error(right)} |"
        shown = ""


def _error(right: Right) -> str:
    if right.shows_less:
        return ""
    return ", ".join(str(int(ERRORS[ResourceType[name]].code)) for name in (right.on, *right.more))


if __name__ == "__main__":
    sys.stdout.write(document())
