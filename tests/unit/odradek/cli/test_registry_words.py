"""`odradek registry` without a registry: which one is asked, files and their types, refusals as sentences, exports."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from odradek.cli import contexts
from odradek.cli.general import General
from odradek.cli.main import main
from odradek.cli.registry_access import URL, USER, client_of
from odradek.cli.registry_schemas import kind_of, references, versions
from odradek.cli.registry_transfer import _in_order, _read
from odradek.schemas.client import RegistryClient
from odradek.schemas.texts import laid_out, readable
from tests.doubles.registry_server import Stub, stub_registry


@pytest.fixture
def stub() -> Iterator[Stub]:
    with stub_registry() as server:
        yield server


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(contexts.FILE, str(tmp_path / "contexts.json"))
    for name in (URL, USER, contexts.CONTEXT):
        monkeypatch.delenv(name, raising=False)


def keep(**settings: str) -> None:
    named = {f"schema.registry.{name.replace('_', '.')}": value for name, value in settings.items()}
    own = {"bootstrap.servers": "b:1", "sasl.username": "u", "sasl.password": "p", **named}
    contexts.write(contexts.Contexts("here", {"here": own}))


def asked(**given: Any) -> tuple[str, str | None]:
    """Which registry is asked, and as whom."""
    client = client_of(General(**given))
    return client.name, client._headers.get("Authorization")


def test_the_registry_is_that_of_the_option_the_context_the_environment_or_this_machines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert asked() == ("http://127.0.0.1:8081", None)
    monkeypatch.setenv(URL, "http://env:1")
    monkeypatch.setenv(USER, "a:b")
    assert asked() == ("http://env:1", "Basic YTpi")
    keep(url="http://context:1", basic_auth_user_info="c:d")
    assert asked() == ("http://context:1", "Basic Yzpk")
    assert asked(settings=("schema.registry.url=http://x:1",)) == ("http://x:1", "Basic Yzpk")
    assert asked(registry="http://other:1") == ("http://other:1", "Basic YTpi"), "the context's user is not for it"
    assert asked(registry="http://other:1", context="here") == ("http://other:1", "Basic Yzpk")


def test_the_clusters_user_is_taken_where_that_is_asked() -> None:
    keep(url="http://context:1", basic_auth_credentials_source="SASL_INHERIT")
    assert asked() == ("http://context:1", "Basic dTpw")
    with pytest.raises(click.UsageError, match=r"no sasl\.username"):
        asked(registry="http://x", settings=("schema.registry.basic.auth.credentials.source=SASL_INHERIT",))
    with pytest.raises(click.UsageError, match="expected USER_INFO, URL or SASL_INHERIT"):
        asked(settings=("schema.registry.basic.auth.credentials.source=NONE",))


def test_librdkafka_gets_none_of_the_registrys_settings() -> None:
    keep(url="http://context:1")
    found = contexts.cluster_settings(General(settings=("schema.registry.bearer.auth.token=t", "client.id=x")))
    assert found == {"bootstrap.servers": "b:1", "sasl.username": "u", "sasl.password": "p", "client.id": "x"}


def test_passwords_of_the_registry_are_not_listed() -> None:
    assert contexts._without_secret("schema.registry.basic.auth.user.info", "u:secret") == "***"
    assert contexts._without_secret("schema.registry.url", "https://u:secret@h:1") == "https://***@h:1"


def test_a_files_name_says_its_type() -> None:
    assert [kind_of(f"a.b{end}", None) for end in (".avsc", ".JSON", ".proto")] == ["AVRO", "JSON", "PROTOBUF"]
    assert kind_of("-", "avro") == "AVRO"
    with pytest.raises(click.UsageError, match="--type"):
        kind_of("-", None)


def test_a_schema_is_laid_out_unless_a_number_would_change() -> None:
    assert laid_out("AVRO", '{"a":[1,9007199254740993]}') == '{\n  "a": [\n    1,\n    9007199254740993\n  ]\n}'
    assert laid_out("JSON", '{"a":1.10}') == '{"a":1.10}'
    assert laid_out("PROTOBUF", "message M {}\n") == "message M {}"


def test_why_a_schema_does_not_fit_is_a_sentence_for_each_rule() -> None:
    confluents = [
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'age' at path '/fields/1' "
        "has no default value', additionalInfo:'age'}",
        '{errorType:"REQUIRED_ATTRIBUTE_ADDED", description:"at \'#/a\': it is new"}',
        "{oldSchemaVersion: 3}",
        '{oldSchema: \'{"type": "record"}\'}',
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
        "Incompatible because of different schema type",
    ]
    assert readable(confluents) == [
        "READER_FIELD_MISSING_DEFAULT_VALUE: The field 'age' at path '/fields/1' has no default value",
        "REQUIRED_ATTRIBUTE_ADDED: at '#/a': it is new",
        "compared with version 3",
        "the level is BACKWARD",
        "Incompatible because of different schema type",
    ]


def test_references_have_the_latest_version_where_none_is_named(stub: Stub) -> None:
    stub.answers = {
        "/subjects/b/versions/latest": (200, {"version": 4}),
        "/subjects/%3A.x%3Ab/versions/2": (200, {"version": 2}),
    }
    assert references(["t.B=b", "o=:.x:b:2"], RegistryClient(stub.url)) == [
        {"name": "t.B", "subject": "b", "version": 4},
        {"name": "o", "subject": ":.x:b", "version": 2},
    ]
    for wrong in ("b", "=b", "b="):
        with pytest.raises(click.BadParameter):
            references([wrong], RegistryClient(stub.url))


@pytest.mark.parametrize(
    ("arguments", "path"),
    [(("s", "é/1"), "/subjects/s/versions/%C3%A9%2F1"), (("--guid", "é"), "/schemas/guids/%C3%A9")],
)
def test_get_of_a_version_or_guid_with_any_letters_ends_in_the_registrys_answer(
    stub: Stub, arguments: tuple[str, ...], path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.answers = {path: (200, {"schema": "{}"})}
    with pytest.raises(SystemExit, match="0"):
        main(["registry", "get", *arguments, "-r", stub.url])
    assert capsys.readouterr().out == "{}\n"


ONE, TWO, GONE = ({"subject": "s", "version": number, "id": number, "schema": "{}"} for number in (1, 2, 3))


@pytest.mark.parametrize("pages", [True, False], ids=["pages", "all-at-once"])
def test_versions_come_in_pages_or_from_an_older_registry_all_at_once(stub: Stub, pages: bool) -> None:
    def page(offset: int, *found: object, deleted: str = "") -> None:
        path = f"/schemas?subjectPrefix=%3A%2A%3As&offset={offset}&limit=1000{deleted}"
        stub.answers[path] = (200, list(found))

    for deleted, all_of_it in (("", [ONE, TWO]), ("&deleted=true", [ONE, TWO, GONE])):
        page(0, *all_of_it[:2], deleted=deleted)
        page(2, *(all_of_it[2:] if pages else all_of_it[:2]), deleted=deleted)
        page(3, deleted=deleted)
    found = list(versions(RegistryClient(stub.url), "s", deleted=True))
    assert found == [ONE, TWO, *([{**GONE, "deleted": True}] if pages else [])]


def test_a_registry_that_does_not_list_schemas_is_asked_for_each(stub: Stub) -> None:
    stub.answers = {
        "/subjects?deleted=true": (200, ["t", "s"]),
        "/subjects": (200, ["s"]),
        "/subjects/s/versions?deleted=true": (200, [1, 3]),
        "/subjects/s/versions": (200, [1]),
        "/subjects/s/versions/1": (200, ONE),
        "/subjects/s/versions/1?deleted=true": (200, ONE),
        "/subjects/s/versions/3?deleted=true": (200, GONE),
    }
    client = RegistryClient(stub.url)
    assert list(versions(client, "s", deleted=True)) == [ONE, {**GONE, "deleted": True}]
    assert list(versions(client, deleted=False, latest=True)) == [ONE]


def test_an_import_does_first_what_others_refer_to() -> None:
    def version(subject: str, number: int, *refers: tuple[str, int]) -> dict[str, Any]:
        found = [{"name": "n", "subject": name, "version": each} for name, each in refers]
        return {"subject": subject, "version": number, "references": found}

    wanted = [version("a", 1, ("z", 2)), version("z", 2, ("z", 1), ("elsewhere", 1)), version("z", 1)]
    assert [(one["subject"], one["version"]) for one in _in_order(wanted)] == [("z", 1), ("z", 2), ("a", 1)]
    with pytest.raises(click.ClickException, match="in a circle"):
        _in_order([version("a", 1, ("b", 1)), version("b", 1, ("a", 1))])


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"subject": "s", "version": "x", "id": 1, "schema": ""}',
        '{"subject": "s", "version": 1, "id": 1}',
        '{"subject": "s", "version": 1, "id": 1, "file": "../secret"}',
        '{"subject": "s", "version": 1, "id": 1, "file": "none.avsc"}',
        '{"config": 1, "subject": null}',
        '{"subject": "s", "version": 1, "id": 1, "schema": "", "references": [{"name": "n"}]}',
        '{"subject": "s", "version": 1, "id": 1, "schema": "", "references": "n"}',
    ],
)
def test_a_line_of_an_export_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "secret").write_text("{}")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "schemas.jsonl").write_text(f"\n{line}\n")
    with pytest.raises(click.ClickException, match=r"line 2|none\.avsc cannot be read"):
        _read(str(folder))


def test_an_export_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match="No such file"):
        _read(os.fspath(tmp_path / "none"))
    (tmp_path / "x.jsonl").write_bytes(b"\xff")
    with pytest.raises(click.ClickException, match="UTF-8"):
        _read(os.fspath(tmp_path / "x.jsonl"))
    (tmp_path / "x.jsonl").write_text(json.dumps({"subject": None, "config": {"compatibilityLevel": "FULL"}}))
    assert _read(os.fspath(tmp_path / "x.jsonl")) == ([], [{"subject": None, "config": {"compatibilityLevel": "FULL"}}])
