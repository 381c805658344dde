"""`odradek format`, with the options of `kafka-storage format`."""

from __future__ import annotations

from base64 import b64encode
from hashlib import pbkdf2_hmac
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from broker.admin.format import main
from controller.quorum.survey import Survey, survey
from protocol import uuids
from storage.files import OsFileSystem
from storage.folders import meta_properties

FS = OsFileSystem()
ID = "k2hLyQu2SZu2ZLwXKgnjPw"


def tool(folder: Path, *arguments: str, properties: str = "") -> Result:
    """Format `folder` with these options and lines of server.properties."""
    config = folder.parent / "server.properties"
    config.write_text(f"log.dirs={folder}\n{properties}")
    return CliRunner().invoke(main, ["-c", str(config), *arguments], env={"CLUSTER_ID": "", "KAFKA_LOG_DIRS": ""})


def in_folder(folder: Path) -> Survey:
    properties = meta_properties.read(FS, str(folder))
    assert properties is not None
    assert properties.directory_id is not None
    return survey(FS, str(folder), properties.node_id, uuids.from_text(properties.directory_id))


def levels(found: Survey) -> dict[str, int]:
    return {record.name: record.feature_level for record in found.bootstrap if hasattr(record, "feature_level")}


def test_a_static_voter_is_the_default(tmp_path: Path) -> None:
    done = tool(tmp_path / "data", "-t", ID)
    assert done.exit_code == 0, done.output
    assert done.output == f"Formatting metadata directory {tmp_path}/data with metadata.version 4.4-IV2.\n"
    found = in_folder(tmp_path / "data")
    assert found.facts.kraft_version == 0
    assert levels(found)["metadata.version"] == 33
    assert meta_properties.read(FS, f"{tmp_path}/data").cluster_id == ID


def test_several_folders_and_another_node(tmp_path: Path) -> None:
    settings = f"log.dirs={tmp_path}/data,{tmp_path}/more\nmetadata.log.dir={tmp_path}/more\nnode.id=7\n"
    done = tool(tmp_path / "data", "-t", ID, properties=settings)
    assert done.exit_code == 0, done.output
    assert "data directory" in done.output
    assert f"metadata directory {tmp_path}/more" in done.output
    assert meta_properties.read(FS, f"{tmp_path}/data").node_id == 7
    assert not (tmp_path / "data" / "__cluster_metadata-0").exists()
    assert in_folder(tmp_path / "more").bootstrap


def test_listeners_need_no_keys_and_no_users_yet(tmp_path: Path) -> None:
    """As with `kafka-storage`: they may be made after the folders."""
    secured = "listeners=SSL://127.0.0.1:9093,SASL_PLAINTEXT://127.0.0.1:9094\n"
    done = tool(tmp_path / "data", "-t", ID, properties=secured)
    assert done.exit_code == 0, done.output


def test_a_release_features_and_users(tmp_path: Path) -> None:
    salt = b64encode(b"0123456789abcdef").decode()
    done = tool(
        tmp_path / "data",
        *("--cluster-id", ID, "--release-version", "3.9", "--feature", "group.version=1"),
        *("--add-scram", f'SCRAM-SHA-256=[name=alice,password=alice-secret,iterations=4096,salt="{salt}"]'),
        *("-S", "SCRAM-SHA-512=[name=bob,password=b]"),
    )
    assert done.exit_code == 0, done.output
    found = in_folder(tmp_path / "data")
    assert levels(found) == {"metadata.version": 21, "group.version": 1}
    alice, bob = found.bootstrap[2:]
    # What Kafka's tool made of the same arguments:
    assert b64encode(alice.stored_key).decode() == "m8lGoSUhzwi9YHfc8DS3Ek3NZenZ+UGZOFtUTYgeVr4="
    assert b64encode(alice.server_key).decode() == "v+oJ1PNoIs9QFCpX/eZFaqojJhVr8JWoRFaLmDK/bvk="
    assert (alice.name, alice.mechanism, alice.iterations) == ("alice", 1, 4096)
    assert (bob.name, bob.mechanism, len(bob.stored_key)) == ("bob", 2, 64)


def test_a_dynamic_voter(tmp_path: Path) -> None:
    settings = (
        "process.roles=broker,controller\n"
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n"
    )
    done = tool(tmp_path / "data", "-t", ID, "--standalone", properties=settings)
    assert done.exit_code == 0, done.output
    found = in_folder(tmp_path / "data")
    assert found.facts.kraft_version == 1
    (voter,) = found.facts.voters.voters
    (endpoint,) = voter.endpoints
    assert (endpoint.name, endpoint.host, endpoint.port) == ("CONTROLLER", "localhost", 9093)
    advertised = settings + "advertised.listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://[::1]:19093\n"
    done = tool(tmp_path / "other", "-t", ID, "-s", properties=advertised)
    assert done.exit_code == 0, done.output
    (endpoint,) = in_folder(tmp_path / "other").facts.voters.voters[0].endpoints
    assert (endpoint.host, endpoint.port) == ("::1", 19093)


def test_a_broker_of_other_controllers_has_no_metadata_log(tmp_path: Path) -> None:
    settings = (
        "process.roles=broker\nnode.id=1\ncontroller.quorum.voters=3000@127.0.0.1:9093\n"
        "controller.listener.names=CONTROLLER\n"
    )
    done = tool(tmp_path / "data", "-t", ID, properties=settings)
    assert done.output == f"Formatting data directory {tmp_path}/data with metadata.version 4.4-IV2.\n"
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["meta.properties"]


def test_formatted_folders(tmp_path: Path) -> None:
    tool(tmp_path / "data", "-t", ID)
    again = tool(tmp_path / "data", "-t", ID)
    assert again.exit_code == 1
    assert "is already formatted. Use --ignore-formatted" in again.output
    ignored = tool(tmp_path / "data", "-t", ID, "-g")
    assert (ignored.exit_code, ignored.output) == (0, "All of the log directories are already formatted.\n")
    other = tool(tmp_path / "data", "-t", "other", "-g")
    assert other.exit_code == 1
    assert "Expected other, but read k2hLyQu2SZu2ZLwXKgnjPw" in other.output


REFUSED: list[tuple[tuple[str, ...], str, str]] = [
    ((), "", "You must specify the cluster id"),
    (("-t", ID, "-r", "9.9"), "", "Unknown metadata.version '9.9'"),
    (("-t", ID, "-f", "group.version"), "", "Can't parse feature=level string"),
    (("-t", ID, "-f", "nix=1"), "", "Unsupported feature: nix"),
    (("-t", ID), "listeners=nonsense", "wrong configuration: listeners"),
    (
        ("-t", ID),
        "controller.quorum.voters=1@h:1,2@h:2",
        "expected node 1, this one, alone: there is no quorum of several",
    ),
    (("-t", ID), "metadata.log.dir=/elsewhere", "/elsewhere, is not one of log.dirs"),
    (("-t", ID, "-s"), "controller.quorum.voters=1@h:1", "You cannot specify controller.quorum.voters"),
    (("-t", ID, "-s"), "", "--standalone needs a listener that controller.listener.names has"),
    (("-t", ID, "-r", "3.4", "-S", "SCRAM-SHA-256=[name=a,password=b]"), "", "metadata.version 3.5-IV2 or later"),
    (("-t", ID, "-S", "SCRAM-SHA-256"), "", "Failed to find equals sign in SCRAM argument"),
    (("-t", ID, "-S", "MD5=[name=a,password=b]"), "", "The add-scram mechanism MD5 is not supported"),
    (("-t", ID, "-S", "SCRAM-SHA-256=name=a"), "", "in brackets"),
    (("-t", ID, "-S", "SCRAM-SHA-256=[name]"), "", "No equals sign found in SCRAM component: name"),
    (("-t", ID, "-S", "SCRAM-SHA-256=[password=b]"), "", "You must supply 'name'"),
    (("-t", ID, "-S", "SCRAM-SHA-256=[name=a,x=b]"), "", "Unknown SCRAM configurations: x"),
    (("-t", ID, "-S", "SCRAM-SHA-256=[name=a]"), "", "one of 'password' or 'saltedpassword'"),
    (("-t", ID, "-S", "SCRAM-SHA-256=[name=a,saltedpassword=YQ==]"), "", "You must supply 'salt'"),
    (("-t", ID, "-S", "SCRAM-SHA-256=[name=a,password=b,salt=!]"), "", "Failed to decode given salt"),
    (("-t", ID, "-S", "SCRAM-SHA-256=[name=a,password=b,iterations=x]"), "", "Failed to parse iterations count: x"),
    (("-t", ID, "-S", "SCRAM-SHA-256=[name=a,password=b,iterations=9]"), "", "must be from 4096 to 16384"),
]


@pytest.mark.parametrize(("arguments", "properties", "said"), REFUSED)
def test_what_is_refused(tmp_path: Path, arguments: Any, properties: str, said: str) -> None:
    done = tool(tmp_path / "data", *arguments, properties=properties)
    assert done.exit_code == 1
    assert said in done.output
    assert not (tmp_path / "data").exists()


def test_a_salted_password(tmp_path: Path) -> None:
    salted = b64encode(pbkdf2_hmac("sha256", b"p", b"a", 4096)).decode()
    users = []
    for number, secret in enumerate(("password=p", f"saltedpassword={salted}")):
        folder = tmp_path / str(number)
        tool(folder, "-t", ID, "-S", f"SCRAM-SHA-256=[name=a,salt=YQ==,{secret}]")
        users.append(in_folder(folder).bootstrap[-1])
    assert users[0] == users[1]
