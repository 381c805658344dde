"""Settings that the images of Apache, Confluent and Bitnami make of variables that are no names of settings.

- `KAFKA_OPTS` names the JVM's JAAS file. The modules of its section `<listener>.KafkaServer`, else `KafkaServer`, are a
  listener's lines (`JaasContext.loadServerContext`): PLAIN's users, and the account by which nodes log in.
- `KAFKA_SSL_KEYSTORE_FILENAME`, `KAFKA_SSL_KEY_CREDENTIALS` and their like name files in /etc/kafka/secrets, the stores
  and their passwords (Apache, Confluent).
- Bitnami's image has users, accounts of nodes and certificates in variables and folders of its own. Its default
  passwords, which everybody knows, are not taken.

What is set by its own name wins. Files are read here, at the start.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from broker.config.broker_config import BrokerConfig, ConfigurationError, split_list
from broker.config.controllers import (
    CONTROLLER_MECHANISM,
    INTER_BROKER_MECHANISM,
    LISTENER_NAMES,
    inter_broker_listener,
)
from broker.config.environment import LOGIN_CONFIG, OF_SECRETS, Environment
from broker.config.listener_settings import MODULES, PLAIN_MODULE, PREFIX, JaasError, LoginModule, parse_jaas_file
from broker.config.listeners import Listener, protocol_map

SECRETS_FOLDER = "/etc/kafka/secrets"
SECTION = "KafkaServer"
MOUNTED_FOLDER = "/bitnami/kafka/config"
_EVERY_MECHANISM = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
_FILE = "_FILE"
_ALIASES = {"KAFKA_BROKER_USER": "KAFKA_CLIENT_USERS", "KAFKA_BROKER_PASSWORD": "KAFKA_CLIENT_PASSWORDS"}
_CLIENTS, _NODES, _CONTROLLERS = "KAFKA_CLIENT", "KAFKA_INTER_BROKER", "KAFKA_CONTROLLER"


@dataclass(slots=True)
class ImageSettings:
    """The settings that the variables make.

    Attributes:
        static: the settings from everywhere, which `add` completes; `origins` has where they are from.
        warnings: a line for each variable without effect.
        problems: a line for each fault.
    """

    static: dict[str, str]
    origins: dict[str, str]
    environment: Environment
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def complete(self) -> list[str]:
        """Add the settings; the warnings. Raises ConfigurationError."""
        of_secrets = [name for name in self.environment.settings if OF_SECRETS.fullmatch(name)]
        for name in of_secrets:
            self.static.pop(name, None)
        config = BrokerConfig.of(self.static, self.origins)
        listeners = tuple(_listeners(config))
        with_tls = [listener for listener in listeners if listener.uses_tls]
        with_sasl = [listener for listener in listeners if listener.uses_sasl]
        if with_tls:
            for name in of_secrets:
                self._secret(name)
        self._jaas_file(with_sasl)
        if self.environment.bitnamis:
            bitnami = self._bitnamis_variables()
            self._bitnamis_users(bitnami, config, with_sasl)
            self._bitnamis_stores(bitnami, with_tls)
        if self.problems:
            raise ConfigurationError(self.problems)
        return self.warnings

    def _add(self, name: str, value: str, origin: str) -> None:
        if name not in self.static:
            self.static[name], self.origins[name] = value, origin

    # Apache's and Confluent's files of secrets

    def _secret(self, name: str) -> None:
        variable, value = self.environment.settings[name]
        match = OF_SECRETS.fullmatch(name)
        assert match is not None
        prefix, store, kind = match.groups()
        target = f"{prefix}{store}.{'location' if kind == 'filename' else 'password'}"
        # The images overwrite what else says where the stores of all listeners are; of one listener they know nothing.
        if target in self.static and (name.startswith(PREFIX) or self.origins.get(target) == "--set"):
            return
        path = os.path.join(SECRETS_FOLDER, value)
        if store == "truststore" and not os.path.exists(path) and not self._asks_for_certificates(prefix):
            return
        content = path if kind == "filename" else self._read(variable, path)
        if content is not None:
            self.static[target], self.origins[target] = content, variable

    def _asks_for_certificates(self, prefix: str) -> bool:
        name = "client.auth"
        asked = self.static.get(prefix + name, self.static.get(f"ssl.{name}", "none"))
        return asked.strip() in ("required", "requested")

    def _read(self, variable: str, path: str) -> str | None:
        try:
            return Path(path).read_text("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError:
            self.problems.append(f"{variable}: expected {path} to be a text in UTF-8")
        except OSError as error:
            self.problems.append(f"{variable}: {path} cannot be read: {error.strerror or error}")
        return None

    # The JVM's JAAS file

    def _jaas_file(self, listeners: Sequence[Listener]) -> None:
        variables = {name: text for name, text in self.environment.of_images.items() if LOGIN_CONFIG in text}
        options: dict[str, str] = {}
        variable = ""
        for variable, text in variables.items():
            given = dict(_system_properties(text))
            options |= given
            without_effect = [f"-D{name}" for name in given if name != LOGIN_CONFIG]
            if without_effect:
                self.warnings.append(
                    f"{variable}: of the JVM's options {', '.join(without_effect)} have no effect here"
                )
        location = options.get(LOGIN_CONFIG, "").removeprefix("=")
        if not location or not listeners:
            return
        own = next((name for name in self.static if name.endswith(("odradek.users", "odradek.users.file"))), None)
        if own is not None:
            self.warnings.append(f"{location} (from {variable}) is not read, since {own} has the users")
            return
        text_of_file = self._read(f"{LOGIN_CONFIG} of {variable}", re.sub("^file:(//)?", "", location))
        if text_of_file is None:
            return
        try:
            sections = parse_jaas_file(text_of_file, options)
        except JaasError as error:
            self.problems.append(f"{location} (from {variable}): {error}")
            return
        for listener in listeners:
            section = sections.get(f"{listener.name.lower()}.{SECTION}", sections.get(SECTION))
            if section is None:
                self.warnings.append(f"{location} (from {variable}) has no section {SECTION} for {listener.name}")
            else:
                self._modules(listener, section, location)

    def _modules(self, listener: Listener, section: Sequence[LoginModule], location: str) -> None:
        for mechanism, name in MODULES.items():
            options: dict[str, str] = {}
            found = [module for module in section if module.name == name]
            for module in reversed(found):  # the first counts
                options |= module.options
            if found:
                self._add(_jaas_key(listener, mechanism), LoginModule(name, options).line, location)
        unknown = sorted({module.name for module in section} - {*MODULES.values()})
        if unknown:
            self.warnings.append(f"{location}: {', '.join(unknown)} cannot be run here, for {listener.name}")

    # Bitnami's variables

    def _bitnamis_variables(self) -> dict[str, str]:
        """The variables, also those whose value is in the file that the variable with `_FILE` names."""
        found: dict[str, str] = {}
        for variable, value in self.environment.of_images.items():
            name, text = variable, value
            if variable.endswith(_FILE) and variable != "KAFKA_TLS_TRUSTSTORE_FILE":
                name, text = variable.removesuffix(_FILE), self._read(variable, value) or ""
            found[_ALIASES.get(name, name)] = text
        return found

    def _bitnamis_users(self, given: Mapping[str, str], config: BrokerConfig, listeners: Sequence[Listener]) -> None:
        names = re.split(r"[,;\s]+", given.get(f"{_CLIENTS}_USERS", "").strip())
        passwords = re.split(r"[,;\s]+", given.get(f"{_CLIENTS}_PASSWORDS", "").strip())
        if len(names) != len(passwords):
            self.problems.append(f"{_CLIENTS}_PASSWORDS: expected one for each of {_CLIENTS}_USERS")
            return
        clients = {name: password for name, password in zip(names, passwords, strict=True) if name and password}
        controllers = _names_of_controllers(config)
        for listener in listeners:
            if listener.name in controllers:
                self._account_of_nodes(given, listener, config.string(CONTROLLER_MECHANISM))
                continue
            users = dict(clients)
            if listener.name == inter_broker_listener(config):
                users |= self._account(given, listener, config.string(INTER_BROKER_MECHANISM), _NODES, "user")
            self._add("sasl.enabled.mechanisms", _EVERY_MECHANISM, f"{_CLIENTS}_USERS")
            self._add_users(listener, users, f"{_CLIENTS}_USERS")
        if clients and not listeners:
            self.warnings.append(f"{_CLIENTS}_USERS has no effect: no listener has SASL")

    def _account_of_nodes(self, given: Mapping[str, str], listener: Listener, mechanism: str) -> None:
        """Return the account with which nodes log in to the controllers: none where no password is given."""
        self._add(f"{PREFIX}{listener.name.lower()}.sasl.enabled.mechanisms", mechanism, CONTROLLER_MECHANISM)
        users = self._account(given, listener, mechanism, _CONTROLLERS, "controller_user")
        self._add_users(listener, users, f"{_CONTROLLERS}_USER")
        if not users and mechanism == "PLAIN":
            self._add(_jaas_key(listener, mechanism), LoginModule(PLAIN_MODULE, {}).line, f"{_CONTROLLERS}_USER")

    def _account(
        self, given: Mapping[str, str], listener: Listener, mechanism: str, variable: str, default: str
    ) -> dict[str, str]:
        """Password by name of the account by which nodes log in, which becomes the listener's line."""
        password = given.get(f"{variable}_PASSWORD")
        if not password or mechanism not in MODULES:
            return {}
        name = given.get(f"{variable}_USER", default)
        line = LoginModule(MODULES[mechanism], {"username": name, "password": password}).line
        self._add(_jaas_key(listener, mechanism), line, f"{variable}_USER")
        return {name: password}

    def _add_users(self, listener: Listener, users: Mapping[str, str], origin: str) -> None:
        lines = "\n".join(f"{name}:{password}" for name, password in users.items())
        if lines:
            self._add(f"{PREFIX}{listener.name.lower()}.odradek.users", lines, origin)

    def _bitnamis_stores(self, given: Mapping[str, str], listeners: Sequence[Listener]) -> None:
        stores = ("ssl.keystore.location", "ssl.keystore.key", "odradek.tls.folder")
        if not listeners or any(name.endswith(stores) for name in self.static):
            return
        kind = given.get("KAFKA_TLS_TYPE", "JKS").upper()
        if kind not in ("JKS", "PEM"):
            self.problems.append(f"KAFKA_TLS_TYPE = {kind!r}: expected JKS or PEM")
            return
        folders = _certificate_folders(given)
        wanted = {"JKS": ("kafka.keystore.jks",), "PEM": ("kafka.keystore.key", "kafka.keystore.pem")}[kind]
        found = [path for name in wanted if (path := _first_file(folders, name))]
        if len(found) < len(wanted):
            self.problems.append(
                f"expected {' and '.join(wanted)} in {' or '.join(folders)} (KAFKA_TLS_TYPE is {kind})"
            )
            return
        origin = os.path.dirname(found[0])
        self._keystore(kind, found, origin)
        truststore = given.get("KAFKA_TLS_TRUSTSTORE_FILE") or _first_file(folders, f"kafka.truststore.{kind.lower()}")
        if truststore:
            self._add("ssl.truststore.type", kind, origin)
            self._add("ssl.truststore.location", truststore, origin)
        password = given.get("KAFKA_CERTIFICATE_PASSWORD")
        if password:
            for name in ("key",) if kind == "PEM" else ("key", "keystore", "truststore"):
                self._add(f"ssl.{name}.password", password, "KAFKA_CERTIFICATE_PASSWORD")
        self._add("ssl.client.auth", given.get("KAFKA_TLS_CLIENT_AUTH", "required"), "KAFKA_TLS_CLIENT_AUTH")
        for listener in listeners:
            variable = f"KAFKA_TLS_{listener.name}_CLIENT_AUTH"
            if variable in given:
                self._add(f"{PREFIX}{listener.name.lower()}.ssl.client.auth", given[variable], variable)

    def _keystore(self, kind: str, files: Sequence[str], origin: str) -> None:
        self._add("ssl.keystore.type", kind, origin)
        if kind == "JKS":
            self._add("ssl.keystore.location", files[0], origin)
            return
        for name, path in zip(("ssl.keystore.key", "ssl.keystore.certificate.chain"), files, strict=True):
            self._add(name, self._read(name, path) or "", path)


def _listeners(config: BrokerConfig) -> Iterator[Listener]:
    """The listeners of this node and, where it comes to controllers, theirs; only name and protocol count."""
    protocols = protocol_map(config)
    names = [entry.partition("://")[0].strip().upper() for entry in split_list(config.string("listeners"))]
    for name in dict.fromkeys((*names, *_names_of_controllers(config))):
        yield Listener(name, protocols.get(name, "PLAINTEXT"), "", 0)


def _names_of_controllers(config: BrokerConfig) -> tuple[str, ...]:
    return tuple(name.upper() for name in split_list(config.optional_string(LISTENER_NAMES) or ""))


def _jaas_key(listener: Listener, mechanism: str) -> str:
    return f"{PREFIX}{listener.name.lower()}.{mechanism.lower()}.sasl.jaas.config"


def _system_properties(options: str) -> Iterator[tuple[str, str]]:
    """The options -Dname=value, which Kafka's scripts separate at spaces whatever the quotation marks."""
    for option in options.split():
        name, _, value = option.partition("=")
        if name.startswith("-D"):
            yield name.removeprefix("-D"), value


def _certificate_folders(given: Mapping[str, str]) -> tuple[str, ...]:
    mounted = given.get("KAFKA_MOUNTED_CONF_DIR", MOUNTED_FOLDER)
    folders = "/opt/bitnami/kafka/config", mounted, "/opt/bitnami/kafka/conf", "/bitnami/kafka/conf"
    return tuple(f"{folder}/certs" for folder in folders)


def _first_file(folders: Sequence[str], name: str) -> str | None:
    return next((path for folder in folders if os.path.isfile(path := os.path.join(folder, name))), None)
