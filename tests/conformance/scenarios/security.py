"""ACLs, SASL, delegation tokens and quotas, as a broker answers that has none of them; SCRAM credentials."""

from __future__ import annotations

from typing import Any

from tests.conformance.runner import Talk, scenario

ANY_ACL = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
READ_TOPIC = {
    "resource_type": 2,
    "resource_name": "a",
    "resource_pattern_type": 3,
    "principal": "User:u",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
UNKNOWN = 0
SHA_256, SHA_512 = 1, 2
ODD = 99
EXACT, DEFAULT, ANY_NAME = 0, 1, 2


@scenario("describe_acls", range(1, 4))
def listed_acls(t: Talk, v: int) -> None:
    def ask(step: str, **fields: Any) -> None:
        t.call(step, "describe_acls", v, ANY_ACL | fields)

    ask("any")
    ask("of a topic", resource_type_filter=2, resource_name_filter="a", principal_filter="User:u", host_filter="*")
    for name in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        ask(f"odd {name}", **{name: ODD})
        ask(f"{name} -1", **{name: -1})
        ask(f"unknown {name}", **{name: UNKNOWN})


@scenario("create_acls", range(1, 4))
def new_acls(t: Talk, v: int) -> None:
    def create(step: str, *creations: dict[str, Any]) -> None:
        t.call(step, "create_acls", v, {"creations": list(creations)})

    create("one", READ_TOPIC)
    create("none")
    create("two", READ_TOPIC, READ_TOPIC | {"operation": 4})
    create("twice", READ_TOPIC, READ_TOPIC)
    create("empty names", READ_TOPIC | {"resource_name": "", "principal": "", "host": ""})
    for name in ("resource_type", "resource_pattern_type", "operation", "permission_type"):
        create(f"odd {name}", READ_TOPIC | {name: ODD})
        create(f"any {name}", READ_TOPIC | {name: 1})
        create(f"unknown {name}, after a good one", READ_TOPIC, READ_TOPIC | {name: UNKNOWN})


@scenario("delete_acls", range(1, 4))
def deleted_acls(t: Talk, v: int) -> None:
    def delete(step: str, *filters: dict[str, Any]) -> None:
        t.call(step, "delete_acls", v, {"filters": list(filters)})

    delete("any", ANY_ACL)
    delete("none")
    delete("two", ANY_ACL, ANY_ACL | {"resource_name_filter": "a"})
    for name in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        delete(f"odd {name}", ANY_ACL | {name: ODD})
        delete(f"unknown {name}, after a good one", ANY_ACL, ANY_ACL | {name: UNKNOWN})


@scenario("sasl_handshake", range(0, 2))
def handshakes(t: Talk, v: int) -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "none such", ""):
        t.call(f"mechanism {mechanism!r}", "sasl_handshake", v, {"mechanism": mechanism})
    t.call("goes on", "api_versions", 0, {}, pick=lambda answer: answer["error_code"])


@scenario("sasl_authenticate", range(0, 3))
def authentications(t: Talk, v: int) -> None:
    t.call("without a handshake", "sasl_authenticate", v, {"auth_bytes": b"\0user\0password"})
    t.main.call("sasl_handshake", 1, {"mechanism": "PLAIN"})
    t.call("after a handshake", "sasl_authenticate", v, {"auth_bytes": b"\0user\0password"})
    t.call("nothing", "sasl_authenticate", v, {"auth_bytes": b""})


def user(name: str, kind: str = "User") -> dict[str, str]:
    return {"principal_type": kind, "principal_name": name}


@scenario("create_delegation_token", range(1, 4))
def new_tokens(t: Talk, v: int) -> None:
    def create(step: str, *renewers: dict[str, str], **fields: Any) -> None:
        body = {"renewers": list(renewers), "max_lifetime": -1, "owner_principal_type": None}
        t.call(step, "create_delegation_token", v, body | {"owner_principal_name": None} | fields)

    create("plain")
    create("renewers", user("u"), user("w"))
    create("a renewer that is no user", user("u", "Group"))
    create("lifetimes", max_lifetime=0)
    create("long lifetime", max_lifetime=2**62)
    create("for another", owner_principal_type="User", owner_principal_name="u")
    create("for oneself", owner_principal_type="User", owner_principal_name="ANONYMOUS")
    create("for no user", owner_principal_type="Group", owner_principal_name="g")
    create("empty owner", owner_principal_type="Group", owner_principal_name="")
    create("owner without a type", owner_principal_name="u")
    create("type without an owner", owner_principal_type="Group")


@scenario("renew_delegation_token", range(1, 3))
def renewals(t: Talk, v: int) -> None:
    for step, hmac, period in (("unknown", b"x" * 20, -1), ("empty", b"", 0), ("long", b"x" * 1000, 2**62)):
        t.call(step, "renew_delegation_token", v, {"hmac": hmac, "renew_period": period})


@scenario("expire_delegation_token", range(1, 3))
def expiries(t: Talk, v: int) -> None:
    for step, hmac, period in (("unknown", b"x" * 20, -1), ("empty", b"", 0), ("long", b"x" * 1000, 2**62)):
        t.call(step, "expire_delegation_token", v, {"hmac": hmac, "expiry_time_period": period})


@scenario("describe_delegation_token", range(1, 4))
def listed_tokens(t: Talk, v: int) -> None:
    for step, owners in (("all", None), ("none", []), ("one", [user("u")]), ("odd", [user("", ""), user("")])):
        t.call(step, "describe_delegation_token", v, {"owners": owners})


@scenario("describe_user_scram_credentials")
def scram_users(t: Talk, v: int) -> None:
    def ask(step: str, *names: str) -> None:
        users = [{"name": name} for name in names]
        t.call(step, "describe_user_scram_credentials", v, {"users": users})

    t.call("all", "describe_user_scram_credentials", v, {"users": None})
    ask("none")
    ask("unknown", "nobody")
    ask("two unknown", "nobody", "no one")
    ask("twice", "nobody", "nobody")
    ask("thrice, and another", "nobody", "no one", "nobody", "nobody")
    ask("empty name", "")
    ask("empty name twice", "", "")
    ask("odd name", "a b,=\u00e9")


@scenario("describe_client_quotas", range(0, 2))
def quotas(t: Talk, v: int) -> None:
    def ask(step: str, *components: tuple[str, int, str | None], strict: bool = False) -> None:
        listed = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
        t.call(step, "describe_client_quotas", v, {"components": listed, "strict": strict})

    ask("of all")
    ask("of none", strict=True)
    for kind in ("user", "client-id", "ip", "User", "group", ""):
        ask(f"named {kind!r}", (kind, EXACT, t.prefix + "u"))
        ask(f"named {kind!r}, strictly", (kind, EXACT, t.prefix + "u"), strict=True)
        ask(f"default {kind!r}", (kind, DEFAULT, None))
        ask(f"any {kind!r}", (kind, ANY_NAME, None))
        ask(f"{kind!r} twice", (kind, DEFAULT, None), (kind, EXACT, "u"))
        ask(f"any {kind!r} twice", (kind, ANY_NAME, None), (kind, ANY_NAME, None))
        ask(f"{kind!r} of an odd match", (kind, 3, None))
        ask(f"{kind!r} of a negative match", (kind, -1, "u"))
    ask("exact without a name", ("user", EXACT, None))
    ask("exact of the empty name", ("user", EXACT, ""))
    ask("default with a name", ("user", DEFAULT, "u"))
    ask("default with the empty name", ("user", DEFAULT, ""))
    ask("any with a name", ("user", ANY_NAME, "u"))
    ask("user and client", ("user", EXACT, "u"), ("client-id", ANY_NAME, None))
    ask("user and ip", ("user", DEFAULT, None), ("ip", DEFAULT, None))
    ask("ip and client", ("ip", ANY_NAME, None), ("client-id", EXACT, "c"))
    ask("ip and an unknown type", ("ip", ANY_NAME, None), ("group", EXACT, "c"))
    ask("an odd match, then an unknown type", ("user", 3, None), ("group", EXACT, "c"))
    ask("an unknown type twice", ("group", DEFAULT, None), ("group", DEFAULT, None))
    ask("ip and user, the user twice", ("ip", DEFAULT, None), ("user", DEFAULT, None), ("user", DEFAULT, None))


@scenario("alter_user_scram_credentials")
def altered_scram_users(t: Talk, v: int) -> None:
    one, other, mark = f"{t.prefix}u", f"{t.prefix}w", f"{t.prefix}mark"
    marks = 0

    def upsertion(user: str, mechanism: int = SHA_256, iterations: int = 4096, password: str = "70") -> dict[str, Any]:
        credential = {"iterations": iterations, "salt": b"\1\2", "salted_password": bytes.fromhex(password)}
        return {"name": user, "mechanism": mechanism} | credential

    def describe(*users: str) -> Any:
        return {"users": [{"name": user} for user in users]}

    def catch_up() -> None:
        """Kafka's broker learns of it later than its controller: wait until it knows a mark that was set since."""
        nonlocal marks
        marks += 1
        body = {"deletions": [], "upsertions": [upsertion(mark, iterations=4096 + marks)]}
        t.main.call("alter_user_scram_credentials", v, body)
        known = [{"mechanism": SHA_256, "iterations": 4096 + marks}]
        t.until(
            "the mark",
            lambda: (
                t.main.call("describe_user_scram_credentials", v, describe(mark))["results"][0]["credential_infos"]
                == known
            ),
        )

    def alter(step: str, *upsertions: dict[str, Any], without: tuple[tuple[str, int], ...] = ()) -> None:
        body = {
            "deletions": [{"name": user, "mechanism": mechanism} for user, mechanism in without],
            "upsertions": list(upsertions),
        }
        t.call(step, "alter_user_scram_credentials", v, body)
        catch_up()
        t.call(
            f"after {step}",
            "describe_user_scram_credentials",
            v,
            describe(one, other),
        )

    alter("nothing")
    alter("one", upsertion(one))
    alter("other iterations", upsertion(one, iterations=16384))
    alter("another mechanism", upsertion(one, SHA_512))
    alter("two users", upsertion(one, SHA_512, 5000), upsertion(other, SHA_512))
    alter("no name", upsertion(""), without=(("", SHA_256),))
    for mechanism in (0, 3, -1):
        alter(f"mechanism {mechanism}", upsertion(one, mechanism), without=((other, mechanism),))
    for iterations in (0, -1, 4095, 16385):
        alter(f"{iterations} iterations", upsertion(one, iterations=iterations))
    alter("an empty password", upsertion(one, password=""))
    alter("an empty password and a good one", upsertion(one, password=""), upsertion(other))
    alter("a user twice", upsertion(one), upsertion(one, SHA_512))
    alter("a user three times", upsertion(one), upsertion(one), upsertion(one))
    alter("a bad one twice", upsertion(one, 0), upsertion(one))
    alter("a good and a bad one of a user", upsertion(one), upsertion(one, 0))
    alter("an empty password twice", upsertion(one, password=""), upsertion(one, password=""))
    alter("deleted and made", upsertion(one), without=((one, SHA_256),))
    alter("deleted twice", without=((other, SHA_256), (other, SHA_512)))
    alter("none there", without=(("nobody", SHA_256), (other, SHA_512)))
    alter("one gone, one new", upsertion(other), without=((one, SHA_256),))
    alter("all gone", without=((one, SHA_512), (other, SHA_256)))
    alter("gone already", without=((one, SHA_512),))
    t.main.call(
        "alter_user_scram_credentials",
        v,
        {"deletions": [{"name": mark, "mechanism": SHA_256}], "upsertions": []},
    )
