"""Metadata and rules of schemas, and the settings that go around them: who has which, and what is the same schema."""

from __future__ import annotations

from typing import Any

from tests.unit.broker.registry.rig import Asking, body, record, registry

A, B, C = record("a:int"), record("a:int", "b:int=1"), record("a:int", "c:int=1")
MINE, YOURS = ({"properties": {"owner": who}} for who in ("me", "you"))
RULES = {"domainRules": [{"name": "mask", "kind": "TRANSFORM", "mode": "WRITE", "type": "ENCRYPT"}]}


async def version(asking: Asking, number: int | str) -> Any:
    return await asking.ask("GET", f"/subjects/s/versions/{number}")


async def test_a_schema_without_metadata_and_rules_is_the_one_that_has_them() -> None:
    async with registry() as asking:
        first = await asking.register("s", A, metadata=MINE, ruleSet=RULES)
        assert await asking.register("s", A) == first
        found = await asking.ask("POST", "/subjects/s", body(A))
        assert (found["id"], found["metadata"], found["ruleSet"]) == (first["id"], MINE, RULES)
        padded: dict[str, Any] = {**MINE, "tags": None, "sensitive": []}
        assert await asking.register("s", A, metadata=padded) == first
        assert (await asking.register("s", A, metadata=YOURS))["version"] == 2
        assert await asking.code("POST", "/subjects/s", body(B, metadata=MINE)) == 40403


async def test_a_new_version_takes_over_what_it_does_not_say_itself() -> None:
    async with registry() as asking:
        await asking.register("s", A, metadata=MINE, ruleSet=RULES)
        await asking.register("s", B)
        assert ((await version(asking, 2))["metadata"], (await version(asking, 2))["ruleSet"]) == (MINE, RULES)
        await asking.register("s", C, metadata=YOURS)
        assert ((await version(asking, 3))["metadata"], (await version(asking, 3))["ruleSet"]) == (YOURS, RULES)
        assert (await asking.register("s", "", metadata=MINE))["version"] == 4


async def test_the_property_for_the_version_makes_no_other_schema() -> None:
    async with registry() as asking:
        numbered = {"properties": {"confluent:version": "1"}}
        first = await asking.register("s", A, metadata=numbered)
        assert await asking.register("s", A) == first
        await asking.register("s", B)
        assert "metadata" not in await version(asking, 2)


async def test_the_latest_version_with_some_properties_is_found() -> None:
    async with registry() as asking:
        for schema, owner in ((A, MINE), (B, MINE), (C, YOURS)):
            await asking.register("s", schema, metadata=owner)
        path = "/subjects/s/metadata?key=owner&value="
        assert [(await asking.ask("GET", path + who))["version"] for who in ("me", "you")] == [2, 3]
        assert (await asking.ask("GET", "/subjects/s/metadata"))["version"] == 3
        assert await asking.code("GET", f"{path}me&key=team&value=x") == 40403


async def test_defaults_and_overrides_go_around_what_a_schema_says() -> None:
    async with registry() as asking:
        settings = {
            "defaultMetadata": {"properties": {"owner": "all", "team": "t"}, "tags": {"a": ["PII"]}},
            "overrideMetadata": {"properties": {"level": "high"}},
            "overrideRuleSet": RULES,
        }
        assert await asking.ask("PUT", "/config/s", settings) == settings
        own = {"domainRules": [{"name": "check"}, {"name": "mask", "kind": "CONDITION"}]}
        await asking.register("s", A, metadata=MINE, ruleSet=own)
        found = await version(asking, 1)
        assert found["metadata"]["properties"] == {"owner": "me", "team": "t", "level": "high"}
        assert found["metadata"]["tags"] == {"a": ["PII"]}
        assert found["ruleSet"] == {"domainRules": [{"name": "check"}, *RULES["domainRules"]]}
        assert (await asking.register("s", A))["version"] == 1
        await asking.ask("PUT", "/config/s", {"overrideMetadata": None, "defaultMetadata": MINE})
        left = {"defaultMetadata": MINE, "overrideRuleSet": RULES}
        assert await asking.ask("GET", "/config/s") == {"compatibilityLevel": "BACKWARD", **left}


async def test_schemas_are_compared_with_those_of_their_group() -> None:
    async with registry() as asking:
        major = [{"properties": {"major": number}} for number in ("1", "2")]
        await asking.ask("PUT", "/config/s", {"compatibilityGroup": "major"})
        await asking.register("s", A, metadata=major[0])
        other = record("other:int")
        assert await asking.code("POST", "/subjects/s/versions", body(other, metadata=major[0])) == 40901
        assert (await asking.register("s", other, metadata=major[1]))["version"] == 2
        assert (await asking.register("s", B, metadata=major[0]))["version"] == 3
        check = await asking.ask("POST", "/compatibility/subjects/s/versions", body(C, metadata=major[1]))
        assert check == {"is_compatible": False}


async def test_an_alias_stands_for_another_subject_but_in_levels() -> None:
    async with registry() as asking:
        await asking.register("s", A)
        await asking.ask("PUT", "/config/short", {"alias": "s"})
        assert (await asking.ask("GET", "/subjects/short/versions/1"))["subject"] == "s"
        assert (await asking.register("short", B))["subject"] == "s"
        assert (await asking.ask("GET", "/schemas/ids/2?subject=short"))["subject"] == "s"
        assert await asking.ask("POST", "/compatibility/subjects/short/versions", body(C)) == {"is_compatible": True}
        assert await asking.ask("GET", "/config/short") == {"compatibilityLevel": "BACKWARD", "alias": "s"}
        await asking.ask("DELETE", "/config/short")
        assert await asking.code("GET", "/subjects/short/versions") == 40401
