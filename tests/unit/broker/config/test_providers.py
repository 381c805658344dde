"""`config.providers`: values in environment variables, in files of properties, and in folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.api import broker_changes as alter
from broker.config.broker_config import ConfigurationError
from broker.config.sources import Loaded, load
from controller.configs import ConfigChange
from protocol.errors import InvalidRequest

CLASSES = "org.apache.kafka.common.config.provider."
ALL = (
    "config.providers=env,file,directory",
    f"config.providers.env.class={CLASSES}EnvVarConfigProvider",
    f"config.providers.file.class={CLASSES}FileConfigProvider",
    f"config.providers.directory.class={CLASSES}DirectoryConfigProvider",
)
ENVIRON = {"SECRET_KEY": "env password", "OTHER": "other"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "some.properties").write_bytes(b"\xef\xbb\xbfkey = p\xc3\xa4ss\\u00e9=1\nempty=\n")
    (tmp_path / "pass word").write_text("of the folder\n")
    (tmp_path / "inner").mkdir()
    return tmp_path


def started(*settings: str) -> Loaded:
    return load(settings=(*ALL, *settings), environ=ENVIRON)


def text_of(folder: Path, text: str, *settings: str) -> str | None:
    loaded = started(f"ssl.key.password={text.replace('DIR', str(folder))}", *settings)
    return loaded.config.optional_string("ssl.key.password")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${env:SECRET_KEY}", "env password"),
        ("a${env:SECRET_KEY}b${env:OTHER}c", "aenv passwordbotherc"),
        ("${file:DIR/some.properties:key}", "pässé=1"),
        ("${file:DIR/inner/../some.properties:key}", "pässé=1"),
        ("x${file:DIR/some.properties:empty}y", "xy"),
        ("${directory:DIR:pass word}", "of the folder"),
        ("${vault:x:y}", "${vault:x:y}"),
        ("${env}", "${env}"),
        ("$${env:OTHER}}", "$other}"),
    ],
)
def test_variables(folder: Path, text: str, value: str) -> None:
    assert text_of(folder, text) == value


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("${env:NOPE}", "ssl.key.password has ${env:NOPE}: there is no such environment variable"),
        ("${env:}", "there is no such environment variable"),
        ("${env:x:OTHER}", "an environment variable has no path"),
        ("${file:key}", "expected ${provider:path:key}"),
        ("${file:DIR/nope:key}", "it cannot be read: No such file"),
        ("${file:DIR/some.properties:nope}", "the file has no nope"),
        ("${directory:DIR:nope}", "the folder has no file nope"),
        ("${directory:DIR:inner}", "the folder has no file inner"),
        ("${directory:DIR/inner:../some.properties}", "the folder has no file ../some.properties"),
    ],
)
def test_a_variable_without_a_value_is_refused(folder: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        text_of(folder, text)
    assert complaint in str(refused.value)


def test_what_is_not_allowed_is_not_read(folder: Path) -> None:
    only = "config.providers.env.param.allowlist.pattern=SECRET_.*"
    assert text_of(folder, "${env:SECRET_KEY}", only) == "env password"
    with pytest.raises(ConfigurationError, match="allowlist"):
        text_of(folder, "${env:OTHER}", only)
    inner = f"config.providers.file.param.allowed.paths=/usr,{folder}/inner"
    with pytest.raises(ConfigurationError, match=r"allowed\.paths leaves this path out"):
        text_of(folder, "${file:DIR/inner/../some.properties:key}", inner)
    with pytest.raises(ConfigurationError, match=r"allowed\.paths leaves this path out"):
        text_of(folder, "${file:DIR/inner2:key}", inner)
    own = f"config.providers.file.param.allowed.paths={folder}/some.properties"
    assert text_of(folder, "${file:DIR/some.properties:key}", own) == "pässé=1"


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("env.class=com.example.Vault", "config.providers.env.class = 'com.example.Vault': expected one of"),
        ("env.param.allowlist.pattern=[a&&b]", "config.providers.env.param.allowlist.pattern: '[a&&b]' has &&"),
        ("file.param.allowed.paths=rel", "expected absolute paths of what exists"),
        ("directory.param.allowed.paths=/no/such", "expected absolute paths of what exists"),
    ],
)
def test_providers_that_cannot_be(setting: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        started(f"config.providers.{setting}")
    assert complaint in str(refused.value)


def test_settings_of_providers_and_of_others(folder: Path) -> None:
    assert not [line for line in started().warnings if "config.providers" in line]
    (line,) = load(settings=["ssl.key.password=${env:X}", "broker.rack=$x"]).warnings
    assert line.startswith("ssl.key.password (from --set) has a variable of no provider of config.providers")
    assert "env:X" not in line


def test_any_setting_of_any_source_may_be_a_variable() -> None:
    environ = {
        "KAFKA_CONFIG_PROVIDERS": "env",
        "KAFKA_CONFIG_PROVIDERS_ENV_CLASS": f"{CLASSES}EnvVarConfigProvider",
        "KAFKA_NUM_PARTITIONS": "${env:COUNT}",
        "COUNT": "7",
    }
    config = load([("f", "node.id=${env:COUNT}\nprocess.roles=broker\n")], environ).config
    assert (config.integer("num.partitions"), config.node_id) == (7, 7)
    with pytest.raises(ConfigurationError, match=r"node\.id = 'seven'"):
        load([("f", "node.id=${env:COUNT}\n")], environ | {"COUNT": "seven"})


def test_a_variable_set_at_run_time(folder: Path) -> None:
    config = started(f"config.providers.file.param.allowed.paths={folder}").config
    name = "listener.name.a.ssl.keystore.password"
    right, wrong = ("${file:" + f"{folder}/some.properties:{key}}}" for key in ("key", "nope"))
    alter.check_broker(config, [ConfigChange(name, 0, right)], per_broker=True, incremental=True)
    with pytest.raises(InvalidRequest, match="the file has no nope"):
        alter.check_broker(config, [ConfigChange(name, 0, wrong)], per_broker=True, incremental=True)
    changed = config.with_dynamic({name: right, "broker.rack": wrong}, {})
    assert changed.given[name] == "pässé=1"
    assert changed.dynamic_broker[name] == right
    assert "broker.rack" not in changed.given


@pytest.mark.parametrize(
    ("name", "limit", "refusal"),
    [
        ("listener.name.a.ssl.keystore.location", True, "only passwords may be variables"),
        ("max.connections.per.ip.overrides", True, "only passwords may be variables"),
        ("listener.name.a.ssl.keystore.password", False, "needs config.providers.file.param.allowed.paths"),
    ],
)
def test_who_may_alter_configs_does_not_read_files_of_the_broker(
    folder: Path, name: str, limit: bool, refusal: str
) -> None:
    config = started(*([f"config.providers.file.param.allowed.paths={folder}"] if limit else [])).config
    text = "${file:" + f"{folder}/some.properties:key}}"
    with pytest.raises(InvalidRequest, match=refusal) as refused:
        alter.check_broker(config, [ConfigChange(name, 0, text)], per_broker=True, incremental=True)
    assert "pässé" not in str(refused.value)
    assert name not in config.with_dynamic({name: text}, {}).given


@pytest.mark.parametrize("path", ["/dev/zero", "pipe"])
def test_a_device_or_a_pipe_is_not_read_for_a_value(folder: Path, path: str) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(ConfigurationError, match="expected a file of at most"):
        text_of(folder, "${file:" + str(folder / path) + ":x}")


def test_a_provider_set_at_run_time_reads_nothing(folder: Path) -> None:
    dynamic = {
        "config.providers": "file",
        "config.providers.file.class": f"{CLASSES}FileConfigProvider",
        "broker.rack": "${file:" + f"{folder}/some.properties:key}}",
    }
    changed = load().config.with_dynamic({}, dynamic)
    assert changed.optional_string("broker.rack") == dynamic["broker.rack"]


@pytest.mark.parametrize(
    "setting",
    [
        "create.topic.policy.class.name=com.example.Policy",
        "alter.config.policy.class.name=com.example.Policy",
        "client.quota.callback.class=com.example.Quotas",
        "principal.builder.class=com.example.Builder",
        "listener.name.plaintext.principal.builder.class=com.example.Builder",
        "ssl.engine.factory.class=com.example.Engine",
        "sasl.oauthbearer.jwt.validator.class=com.example.Validator",
        "listener.name.plaintext.oauthbearer.sasl.oauthbearer.jwt.validator.class=com.example.Validator",
        "authorizer.class.name=com.example.Authorizer",
    ],
)
def test_a_class_that_would_forbid_something_is_refused(setting: str) -> None:
    name, _, value = setting.partition("=")
    with pytest.raises(ConfigurationError) as refused:
        load(settings=[setting])
    assert f"{name} = '{value}': expected" in str(refused.value)


def test_a_policy_of_controllers_is_theirs_to_enforce() -> None:
    settings = (
        "process.roles=broker",
        "node.id=1",
        "controller.quorum.bootstrap.servers=other:9093",
        "controller.listener.names=CONTROLLER",
        "create.topic.policy.class.name=com.example.Policy",
    )
    assert load(settings=settings).config.is_in_cluster


@pytest.mark.parametrize(
    ("setting", "advice"),
    [
        ("max.connection.creation.rate=5", "set the quota connection_creation_rate of addresses"),
        ("listener.name.plaintext.max.connections=5", "set max.connections"),
        ("security.providers=com.example.Fips", "Python's ssl is used"),
    ],
)
def test_a_limit_that_is_not_enforced_says_so(setting: str, advice: str) -> None:
    (line,) = load(settings=[setting]).warnings
    assert "is not enforced here" in line
    assert line.endswith(advice)
