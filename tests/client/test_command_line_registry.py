"""`odradek registry`: schemas registered, refused with reasons, deleted and moved; a registry with TLS and users."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import trustme
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from odradek import Broker
from tests.brokers import sound_broker
from tests.command_line import NO_CONTEXTS, Odradek

REGISTRY = {"schema.registry.listeners": "http://127.0.0.1:0"}
USER = {"type": "record", "name": "User", "namespace": "t", "fields": [{"name": "name", "type": "string"}]}
GROWN = {**USER, "fields": [*USER["fields"], {"name": "age", "type": ["null", "int"], "default": None}]}
REQUIRED = {**USER, "fields": [*USER["fields"], {"name": "age", "type": "int"}]}
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "by", "type": "t.User"}]}
PROTO = 'syntax = "proto3";\nmessage Order { string id = 1; }\n'


@pytest.fixture(scope="module")
def brokers(own_cluster: None) -> Iterator[tuple[Broker, Broker]]:
    with sound_broker(REGISTRY) as one, sound_broker(REGISTRY) as other:
        yield one, other


class RegistryCommand(Odradek):
    """Runs `odradek registry` for the registry of a broker, with schemas in files of the folder."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        super().__init__(broker.bootstrap_servers)
        self._environment = {**NO_CONTEXTS, "SCHEMA_REGISTRY_URL": broker.registry_urls[0]}
        self._folder = folder
        for name, schema in (("user", USER), ("grown", GROWN), ("required", REQUIRED), ("order", ORDER)):
            (folder / f"{name}.avsc").write_text(json.dumps(schema))
        (folder / "order.proto").write_text(PROTO)

    def run(
        self, *arguments: str, stdin: str = "", at: str | None = "", environment: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        given = [str(self._folder / one) if one.endswith((".avsc", ".proto")) else one for one in arguments]
        return super().run("registry", *given, stdin=stdin, at=at, environment=environment or self._environment)


def test_schemas_are_registered_refused_and_deleted(brokers: tuple[Broker, Broker], tmp_path: Path) -> None:
    odradek = RegistryCommand(brokers[0], tmp_path)
    assert odradek.told("register", "o-value", "user.avsc") == "subject o-value: version 1, id 1\n"
    assert odradek.told("register", "o-value", "user.avsc").endswith("version 1, id 1, was there already\n")
    status, _, error = odradek.run("register", "o-value", "required.avsc")
    assert status == 1
    assert "the schema does not fit subject o-value:\n  READER_FIELD_MISSING_DEFAULT_VALUE: " in error
    assert "\n  compared with version 1\n  the level is BACKWARD\n" in error
    status, said, _ = odradek.run("check", "o-value", "required.avsc")
    assert (status, "READER_FIELD_MISSING_DEFAULT_VALUE" in said) == (1, True)
    assert odradek.run("check", "o-value", "required.avsc", "--json")[0] == 1
    assert odradek.json("check", "o-value", "grown.avsc") == {
        "subject": "o-value",
        "is_compatible": True,
        "messages": [],
    }
    assert odradek.json("register", "o-value", "grown.avsc")[0]["version"] == 2
    assert odradek.told("register", "by-value", "order.avsc", "-R", "t.User=o-value:1").startswith("subject by-value")
    assert json.loads(odradek.told("get", "by-value")) == ORDER
    assert odradek.json("get", "o-value", "1", "--used-by") == [{"subject": "by-value", "version": 1, "id": 3}]
    assert odradek.told("register", "p-value", "-", "--type", "protobuf", stdin=PROTO).endswith("id 4\n")
    assert odradek.told("get", "--id", "4") == PROTO

    status, said, error = odradek.run("delete", "o-value", "by-value", "-y")
    assert (status, said) == (1, "subject by-value: version 1 deleted\n"), "the other is done"
    assert "is referred to by" in error
    assert odradek.told("delete", "o-value", "--permanent", "--version", "latest", "-y").endswith(
        "2 deleted for good\n"
    )
    assert odradek.run("get", "by-value")[0] == 1
    assert json.loads(odradek.told("get", "by-value", "--deleted")) == ORDER
    rows = odradek.json("list", "--versions", "--deleted")
    assert [(row["subject"], row["version"], row["deleted"]) for row in rows] == [
        ("by-value", 1, True),
        ("o-value", 1, False),
        ("p-value", 1, False),
    ]
    assert odradek.told("list", "p") == "SUBJECT  VERSION  ID  TYPE      REFERS-TO\np-value  1        4   PROTOBUF  -\n"


def test_levels_and_modes_are_those_of_a_subject_or_of_all(brokers: tuple[Broker, Broker], tmp_path: Path) -> None:
    odradek = RegistryCommand(brokers[0], tmp_path)
    odradek.told("register", "l-value", "user.avsc")
    assert odradek.told("compat") == "BACKWARD\n"
    assert odradek.told("compat", "l-value").startswith("BACKWARD (not set for l-value")
    assert odradek.told("compat", "l-value", "--set", "none") == "subject l-value: compatibility level NONE\n"
    odradek.told("register", "l-value", "required.avsc")
    assert odradek.told("compat", "l-value", "--unset") == "subject l-value: compatibility level BACKWARD\n"
    assert odradek.told("mode", "l-value", "--set", "readonly") == "subject l-value: mode READONLY\n"
    assert "was there already" in odradek.told("register", "l-value", "user.avsc")
    status, _, error = odradek.run("register", "l-value", "order.proto")
    assert (status, "read-only mode (error 42205)" in error) == (1, True)
    assert odradek.told("mode", "l-value", "--unset") == "subject l-value: mode READWRITE\n"
    assert odradek.run("compat", "l-value", "--set", "all")[0] == 2


@pytest.mark.parametrize("name", ["folder", "e.jsonl"])
def test_what_is_exported_has_the_same_ids_at_another_registry(
    brokers: tuple[Broker, Broker], tmp_path: Path, name: str
) -> None:
    one, other = (RegistryCommand(broker, tmp_path) for broker in brokers)
    prefix = f"moved-{name[0]}"
    subjects = [f"{prefix}-{part}" for part in ("value", "x/y", "..", "gone")]
    client = SchemaRegistryClient({"url": brokers[0].registry_urls[0]})
    for number in range(3):  # so that the ids are others than the other registry would give
        client.register_schema(
            f"filler-{number}{name[0]}", Schema(json.dumps({**USER, "name": f"F{number}{name[0]}"}), "AVRO")
        )
    named = {**USER, "name": prefix.replace("-", "_")}
    written = AvroSerializer(client, json.dumps(named))(
        {"name": "Anna"}, SerializationContext(prefix, MessageField.VALUE)
    )
    refers = {**ORDER, "fields": [{"name": "by", "type": f"t.{named['name']}"}]}
    (tmp_path / "refers.avsc").write_text(json.dumps(refers))
    one.told("register", subjects[1], "refers.avsc", "-R", f"t.{named['name']}={subjects[0]}")
    one.told("register", subjects[2], "order.proto")
    one.told("register", subjects[3], "grown.avsc")
    one.told("delete", subjects[3], "-y")
    one.told("compat", subjects[0], "--set", "full")
    target = str(tmp_path / name)
    assert "4 versions of 4 subjects written" in one.told("export", prefix, "-o", target)
    assert one.run("export", prefix, "-o", target)[0] == 1, "what is there is not replaced"

    assert other.told("import", target, "--dry-run").count("missing: id") == 4
    other.told("import", target)
    assert other.json("list", prefix, "--versions", "--deleted") == one.json("list", prefix, "--versions", "--deleted")
    assert other.told("compat", subjects[0]) == "FULL\n"
    assert "READWRITE" in other.told("mode", subjects[0])
    assert other.told("import", target) == "versions 4: are there already\n"
    moved = SchemaRegistryClient({"url": brokers[1].registry_urls[0]})
    read = AvroDeserializer(moved)(written, SerializationContext(prefix, MessageField.VALUE))
    assert read == {"name": "Anna"}


def test_an_export_of_everything_has_the_levels_of_contexts(brokers: tuple[Broker, Broker], tmp_path: Path) -> None:
    one, other = (RegistryCommand(broker, tmp_path) for broker in brokers)
    one.told("register", ":.sales:s", "order.proto")
    one.told("compat", ":.sales:", "--set", "full")
    one.told("export", "-o", str(tmp_path / "all.jsonl"))
    exported = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    lines = "".join(json.dumps(each) + "\n" for each in exported if str(each["subject"]).startswith(":.sales:"))
    other.run("import", "-", stdin=lines)
    assert other.told("compat", ":.sales:") == "FULL\n"


def test_an_id_that_another_schema_has_is_named_and_the_rest_is_imported(
    brokers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    odradek = RegistryCommand(brokers[1], tmp_path)
    taken = json.loads(odradek.told("register", "taken", "grown.avsc", "--json"))[0]["id"]
    lines = [
        {"subject": "new-a", "version": 1, "id": taken, "schema": json.dumps(USER)},
        {"subject": "new-b", "version": 5, "id": 7000, "schema": json.dumps({**USER, "name": "B"})},
        {"subject": "taken", "version": 1, "id": 7001, "schema": json.dumps(GROWN)},
    ]
    status, said, error = odradek.run("import", "-", stdin="".join(json.dumps(line) + "\n" for line in lines))
    assert status == 1
    assert said == "schema new-b:5: id 7000\n"
    assert f"schema new-a:1: Overwrite new schema with id {taken} is not permitted" in error
    assert f"schema taken:1: another one is there: id {taken}, and not id 7001" in error
    assert odradek.json("mode", "new-a")["own"] is False


def test_tls_and_the_clusters_users(own_cluster: None, tmp_path: Path) -> None:
    authority, keys, known = trustme.CA(), tmp_path / "keys.pem", tmp_path / "ca.pem"
    keys.write_bytes(authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.bytes())
    known.write_bytes(authority.cert_pem.bytes())
    settings = {
        "schema.registry.listeners": "https://127.0.0.1:0",
        "listener.name.registry.ssl.keystore.type": "PEM",
        "listener.name.registry.ssl.keystore.location": str(keys),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "sasl.enabled.mechanisms": "PLAIN",
    }
    with sound_broker(settings, security="SASL_PLAINTEXT", users={"admin": "secret", "app": "hidden"}) as broker:
        odradek = RegistryCommand(broker, tmp_path)
        assert "its certificate cannot be verified" in odradek.run("list")[2]
        trust = ("-X", f"schema.registry.ssl.ca.location={known}")
        assert "refuses: Say who you are" in odradek.run("list", *trust)[2]
        contexts = tmp_path / "contexts.json"
        environment = {"ODRADEK_CONTEXTS": os.fspath(contexts), "SCHEMA_REGISTRY_URL": ""}
        own = {
            "bootstrap.servers": broker.bootstrap_servers,
            "sasl.username": "admin",
            "sasl.password": "secret",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "schema.registry.url": broker.registry_urls[0],
            "schema.registry.basic.auth.credentials.source": "SASL_INHERIT",
            "schema.registry.ssl.ca.location": os.fspath(known),
        }
        contexts.write_text(json.dumps({"current": "here", "contexts": {"here": own}}))
        odradek.told("register", "o-value", "user.avsc", environment=environment)
        assert "o-value" in odradek.told("list", environment=environment)
        Odradek("").told("topics", "list", at="", environment=environment)
        app = ("-X", "sasl.username=app", "-X", "sasl.password=hidden")
        status, _, error = odradek.run("register", "o-value", "grown.avsc", *app, environment=environment)
        assert (status, "denied operation WRITE on the topic o" in error) == (1, True), error
