"""Client quotas: setting, telling and removing them, and what clients are told who do not keep to them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.conformance.batches import record
from tests.conformance.runner import Talk, produce_body, scenario
from tests.conformance.scenarios.fetch import ask, place
from tests.conformance.wire import Frame, Wire, header

EXACT, DEFAULT, ANY_NAME = 0, 1, 2
BYTES_IN, BYTES_OUT, PERCENT, MUTATIONS, CONNECTIONS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
Named = dict[str, str | None]
HIGH = 2.0**40
"""No client is held back by it."""


def entry(entity: Named | list[tuple[str, str | None]], *ops: tuple[str, float | None]) -> dict[str, Any]:
    parts = entity.items() if isinstance(entity, dict) else entity
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in parts],
        "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in ops],
    }


class Quotas:
    """Requests of one scenario. What it sets for users and clients it takes back at the end."""

    def __init__(self, t: Talk, v: int) -> None:
        self.t, self.v = t, v
        self.mark: Named = {"client-id": f"{t.prefix}mark"}
        self.marks = 0.0
        self.set: list[tuple[Named, str]] = []

    def describe(self, step: str, *components: tuple[str, int, str | None], strict: bool = False) -> None:
        listed = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
        body = {"components": listed, "strict": strict}
        self.t.call(step, "describe_client_quotas", self.v, body)

    def alter(self, step: str, *entries: dict[str, Any], validate_only: bool = False) -> None:
        body = {"entries": list(entries), "validate_only": validate_only}
        self.t.call(step, "alter_client_quotas", self.v, body)
        self.set += [
            ({one["entity_type"]: one["entity_name"] for one in each["entity"]}, op["key"])
            for each in entries
            for op in each["ops"]
        ]

    def catch_up(self) -> None:
        """Kafka's broker learns of it later than its controller: wait until it knows a mark that was set since."""
        self.marks += 1
        body = {"entries": [entry(self.mark, (BYTES_IN, HIGH + self.marks))], "validate_only": False}
        self.t.main.call("alter_client_quotas", self.v, body)
        self.set.append((dict(self.mark), BYTES_IN))
        asked = {"entity_type": "client-id", "match_type": EXACT, "match": self.mark["client-id"]}

        def known() -> bool:
            answer = self.t.main.call("describe_client_quotas", self.v, {"components": [asked], "strict": True})
            return [one["value"] for each in answer["entries"] for one in each["values"]] == [HIGH + self.marks]

        self.t.until("the mark", known)

    def clean(self) -> None:
        for entity, key in self.set:
            body = {"entries": [entry(entity, (key, None))], "validate_only": False}
            self.t.main.call("alter_client_quotas", self.v, body)


@contextlib.contextmanager
def quotas_of(t: Talk, v: int) -> Iterator[Quotas]:
    quotas = Quotas(t, v)
    try:
        yield quotas
    finally:
        quotas.clean()


@scenario("alter_client_quotas", range(0, 2))
def kept_quotas(t: Talk, v: int) -> None:
    with quotas_of(t, v) as quotas:
        user, client = f"{t.prefix}u/=, é", f"{t.prefix}c"
        of_user: tuple[str, int, str | None] = ("user", EXACT, user)
        of_client: tuple[str, int, str | None] = ("client-id", EXACT, client)
        both: Named = {"user": user, "client-id": client}

        def told(step: str) -> None:
            quotas.catch_up()
            quotas.describe(f"{step}: the user", of_user)
            quotas.describe(f"{step}: the user alone", of_user, strict=True)
            quotas.describe(f"{step}: the client", of_client)
            quotas.describe(f"{step}: both", of_user, of_client)
            quotas.describe(f"{step}: the user with any client", of_user, ("client-id", ANY_NAME, None))
            quotas.describe(f"{step}: the user with the default client", of_user, ("client-id", DEFAULT, None))
            quotas.describe(
                f"{step}: the client with any user, strictly", ("user", ANY_NAME, None), of_client, strict=True
            )

        quotas.alter("of a user", entry({"user": user}, (BYTES_IN, HIGH), (BYTES_OUT, HIGH), (PERCENT, 5000.5)))
        told("of a user")
        quotas.alter(
            "of four",
            entry(both, (PERCENT, 0.001), (MUTATIONS, 1e9)),
            entry({"client-id": client, "user": None}, (BYTES_IN, HIGH)),
            entry({"client-id": None, "user": user}, (BYTES_OUT, HIGH)),
            entry({"client-id": client}, (MUTATIONS, 1e300), (BYTES_OUT, 1.0)),
        )
        told("of four")
        quotas.alter("other values", entry({"user": user}, (BYTES_IN, HIGH + 1), (BYTES_OUT, None), (MUTATIONS, 1e9)))
        told("other values")
        quotas.alter("validated", entry({"user": user}, (BYTES_IN, 1.0), (MUTATIONS, None)), validate_only=True)
        quotas.alter("validated, wrong", entry({"user": user}, (BYTES_IN, 0.5)), validate_only=True)
        told("validated")
        quotas.alter("removed", entry({"user": user}, (BYTES_IN, None), (PERCENT, None), (MUTATIONS, None)))
        quotas.alter("removed what is not there", entry({"user": user}, (BYTES_IN, None), ("no such", None)))
        quotas.alter("all of both removed", entry(both, (PERCENT, None), (MUTATIONS, None)))
        told("removed")


@scenario("alter_client_quotas", range(0, 2))
def addresses(t: Talk, v: int) -> None:
    with quotas_of(t, v) as quotas:
        name, longer = f"192.0.2.{70 + v}", f"2001:db8::7{v}"  # versions are played side by side
        for address in (name, longer, "localhost", "no such host.invalid", "256.1.1.1", ""):
            quotas.alter(f"of {address!r}", entry({"ip": address}, (CONNECTIONS, 2.0**31 - 1)))
        quotas.catch_up()
        for address in (name, longer, longer.replace("::", ":0::"), "192.0.2.79"):
            quotas.describe(f"told of {address}", ("ip", EXACT, address))
        for value in (0.0, -1.0, 0.5, 1.0000001, 2.0**31, 2.0**31 - 2):
            quotas.alter(f"{value}", entry({"ip": name}, (CONNECTIONS, value)))
        quotas.alter("of a client", entry({"ip": name}, (BYTES_IN, HIGH)))
        quotas.alter("with a user", entry({"ip": name, "user": "u"}, (CONNECTIONS, 10.0)))
        quotas.alter("with a client", entry({"client-id": None, "ip": None}, (BYTES_IN, HIGH)))
        quotas.catch_up()
        quotas.describe("told at last", ("ip", EXACT, name))


@scenario("alter_client_quotas", range(0, 2))
def refusals(t: Talk, v: int) -> None:
    with quotas_of(t, v) as quotas:
        user: Named = {"user": f"{t.prefix}u"}
        for key in (BYTES_IN, BYTES_OUT, PERCENT, MUTATIONS, CONNECTIONS, "no such", "", "SCRAM-SHA-256"):
            for value in (0.0, -1.0, 1e-7, 1.5, 1e12, 1.00000001, 2.0**63, 2.0**64, float("inf"), float("nan")):
                quotas.alter(f"{key} {value}", entry(user, (key, value)))
        quotas.alter("numbers again", entry(user, *[(key, HIGH) for key in (BYTES_IN, BYTES_OUT, PERCENT, MUTATIONS)]))
        quotas.alter("nothing")
        quotas.alter("no part", entry({}, (BYTES_IN, HIGH)))
        quotas.alter("no operation", entry(user))
        for kind in ("group", "User", ""):
            quotas.alter(f"a part {kind!r}", entry({kind: "g"}, (BYTES_IN, HIGH)))
            quotas.alter(f"a user and a part {kind!r}", entry({**user, kind: None}, (BYTES_IN, HIGH)))
        for kind in ("user", "client-id", "ip"):
            quotas.alter(f"an empty {kind}", entry({kind: ""}, (BYTES_IN, HIGH)))
        quotas.alter("a type twice", entry([("user", "no one"), ("user", user["user"])], (BYTES_IN, HIGH)))
        quotas.alter("two empty names", entry({"user": "", "client-id": ""}, (BYTES_IN, HIGH)))
        quotas.alter("two wrong keys", entry(user, ("x", 1.0), ("no such", 1.0)))
        quotas.alter("three wrong keys", entry(user, ("c", 1.0), ("b", 1.0), ("a", 1.0)))
        quotas.alter("a wrong and a right key", entry(user, ("x", 1.0), (BYTES_OUT, HIGH)))
        quotas.alter("a key twice", entry(user, (BYTES_OUT, HIGH), (BYTES_OUT, HIGH)))
        quotas.alter("a key set and removed", entry(user, (BYTES_OUT, HIGH), (BYTES_OUT, None)))
        again: Named = {**user, "client-id": None}
        quotas.alter("an entity twice", entry(again, (BYTES_OUT, HIGH)), entry(again, (BYTES_IN, HIGH)))
        quotas.alter("an entity thrice", *[entry(user, (BYTES_OUT, HIGH + n)) for n in range(3)])
        quotas.alter("a wrong one twice", entry(user, ("x", HIGH)), entry(user, (BYTES_IN, HIGH)))
        quotas.alter(
            "of many",
            *[entry({"client-id": f"quota scenario {n}"}, (BYTES_OUT if n % 3 else "x", HIGH)) for n in range(20)],
        )
        quotas.catch_up()
        quotas.describe("told", ("user", EXACT, user["user"]))


def limited(t: Talk, quotas: Quotas, client_id: str, key: str, value: float) -> Wire:
    """A connection of a client that nobody knows yet, with a quota."""
    name = t.prefix + client_id
    body = {"entries": [entry({"client-id": name}, (key, value))], "validate_only": False}
    t.main.call("alter_client_quotas", quotas.v, body)
    quotas.set.append(({"client-id": name}, key))
    quotas.catch_up()
    quotas.catch_up()  # the first may be told a little before quotas hold
    return t.connect(1, name)


@scenario("alter_client_quotas", (1,))
def too_many_bytes(t: Talk, v: int) -> None:
    """The first use of a quota is averaged over the least time that there is, so that the time told is exact."""
    with quotas_of(t, v) as quotas:
        topic = t.topic("t")
        for version in (3, 8, 9, 13):
            wire = limited(t, quotas, f"p{version:02}", BYTES_IN, 1000)
            body = produce_body(topic, {0: t.batch([record(b"x" * 40_000)])})
            t.call(f"produce {version}", "produce", version, body, wire=wire, pick=held_back)
            if version == 9:
                t.call("goes on", "api_versions", 0, {}, wire=wire)
        for version in (4, 7, 11, 12, 17):
            for limit, step in ((500, "within its limit at most"), (5000, "more than its limit"), (50_000, "less")):
                wire = limited(t, quotas, f"f{version:02}{limit:05}", BYTES_OUT, limit)
                body = ask(place(topic, 0), max_bytes=60_000 if limit > 500 else 10**6, session_epoch=0)
                t.call(f"fetch {version}, {step}", "fetch", version, body, wire=wire, pick=sized)


def held_back(answer: dict[str, Any]) -> Any:
    """For how long to wait, which is left out of answers elsewhere."""
    return {"wait_ms": answer["throttle_time"], "error_code": answer.get("error_code")}


def sized(answer: dict[str, Any]) -> Any:
    """How many bytes of records came, if any, and for how long to wait."""
    records = [len(one["records"]) for topic in answer["responses"] for one in topic["partitions"]]
    return {**held_back(answer), "records": records, "session": bool(answer.get("session_id"))}


@scenario("alter_client_quotas", (1,))
def too_many_partitions(t: Talk, v: int) -> None:
    """With so low a quota the first change uses it up; the time is told in tens of seconds, as some of it goes by."""

    def told(answer: dict[str, Any]) -> Any:
        left_out = ("configs", "topic_id")
        topics = [{key: value for key, value in one.items() if key not in left_out} for one in answer["topics"]]
        return {"topics": topics, "wait_ms": answer["throttle_time"] // 10_000}

    def wanted(*names: str) -> list[dict[str, Any]]:
        return [{"name": t.name(name), "num_partitions": 2, "replication_factor": 1} for name in names]

    with quotas_of(t, v) as quotas:
        for version in (4, 5, 6, 7):
            for validate_only in (False, True):
                step = f"create {version}{', validated' if validate_only else ''}"
                wire = limited(t, quotas, step, MUTATIONS, 0.01)
                names = [f"{version}{validate_only}{n}" for n in range(3)]
                topics = {"topics": wanted(*names), "timeout": 5000, "validate_only": validate_only}
                t.call(step, "create_topics", version, topics, wire=wire, pick=told)
        for version in (4, 5, 6):
            made = [t.topic(f"d{version}{n}", 3) for n in range(2)]
            wire = limited(t, quotas, f"delete {version}", MUTATIONS, 0.01)
            named = [{"name": topic.name} for topic in made]
            body = {"topics": named, "topic_names": [topic.name for topic in made], "timeout": 5000}
            t.call(f"delete {version}", "delete_topics", version, body, wire=wire, pick=counted)
        for version in (1, 2, 3):
            made = [t.topic(f"g{version}{n}", 3) for n in range(2)]
            wire = limited(t, quotas, f"grow {version}", MUTATIONS, 0.01)
            grown = [{"name": topic.name, "count": 5, "assignments": None} for topic in made]
            body = {"topics": grown, "timeout": 5000, "validate_only": False}
            t.call(f"grow {version}", "create_partitions", version, body, wire=wire, pick=counted)


def counted(answer: dict[str, Any]) -> Any:
    """What became of how many topics, in whatever order."""
    results = answer.get("responses", answer.get("results", []))
    outcomes = [[one["error_code"], one.get("error_message")] for one in results]
    return {"wait_ms": answer["throttle_time"] // 10_000, "outcomes": sorted(outcomes)}


@scenario("alter_client_quotas", (1,))
def too_many_connections(t: Talk, v: int) -> None:
    """Linux has all of 127.0.0.0/8 for itself; nobody else comes from this address."""
    source = "127.0.77.1"
    with quotas_of(t, v) as quotas:
        quotas.alter("an address", entry({"ip": source}, (CONNECTIONS, 1.0)))
        quotas.catch_up()
        quotas.catch_up()
        wires = [t.connect(5, source=source) for _ in range(12)]
        for wire in wires:
            wire.send_frame(header(18, 0, 1, "judge", False))
        for number, wire in enumerate(wires):
            answered = wire.receive()
            t.keep(f"connection {number}", {"answered": True} if isinstance(answered, Frame) else answered)
