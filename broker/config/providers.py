"""`config.providers`: values kept elsewhere, which settings name as `${provider:path:key}` (KIP-297).

    config.providers=env,file
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
    config.providers.env.param.allowlist.pattern=SECRET_.*
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/run/secrets

`${env:SECRET_OF_KEYSTORE}` has no path. Unlike in Kafka a variable of a known provider that has no such value is
refused: in the place of a password it would be one that everybody can read.

Who may alter settings must not read the broker's files by them. So what is set at run time makes no provider, and may
be a variable only where it is a password, which is never shown, of a provider that says what may be read by it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from broker.config.broker_config import PROVIDERS, ConfigurationError
from broker.config.definition import ConfigType
from broker.config.defs import alterable, base_name
from broker.config.environment import parse_properties
from broker.config.java_patterns import JavaPatternError, compile_java

_PACKAGE = "org.apache.kafka.common.config.provider."
_ENVIRONMENT, _FILE, _DIRECTORY = (f"{_PACKAGE}{kind}ConfigProvider" for kind in ("EnvVar", "File", "Directory"))
_VARIABLE = r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}"
_LONGEST = 1 << 20
"""Bytes of a file that is read for a value."""


class _NoValueError(Exception):
    """There is no such value."""


@dataclass(frozen=True, slots=True)
class _Provider:
    """One provider. `allowed` are the folders and files that it may read, None for all; or it has `environment`.

    `is_limited` tells whether a setting says what may be read by it.
    """

    kind: str
    is_limited: bool
    allowed: tuple[str, ...] | None = None
    environment: Mapping[str, str] | None = None

    def value(self, path: str, key: str) -> str:
        """Raises _NoValueError. Blocking, any thread."""
        if self.environment is not None:
            if path:
                raise _NoValueError("expected ${provider:NAME}, since an environment variable has no path")
            if key not in self.environment:
                raise _NoValueError("there is no such environment variable, or allowlist.pattern leaves it out")
            return self.environment[key]
        if not path:
            raise _NoValueError("expected ${provider:path:key}")
        place = os.path.normpath(path)
        if self.allowed is not None and not any(_is_within(place, each) for each in self.allowed):
            raise _NoValueError("allowed.paths leaves this path out")
        try:
            return self._of_file(place, key) if self.kind == _FILE else self._of_directory(place, key)
        except OSError as error:
            raise _NoValueError(f"it cannot be read: {error.strerror or error}") from error
        except ValueError as error:
            raise _NoValueError(f"it cannot be read: {error}") from error

    def _of_file(self, path: str, key: str) -> str:
        values = parse_properties(_read(path).decode())
        if key not in values:
            raise _NoValueError(f"the file has no {key}")
        return values[key]

    def _of_directory(self, path: str, key: str) -> str:
        found = Path(path, key)
        if os.path.basename(key) != key or not found.is_file():
            raise _NoValueError(f"the folder has no file {key}")
        return _read(found).decode("utf-8-sig")


def _read(path: str | Path) -> bytes:
    """Raises OSError, and ValueError for what is no file that is read at once: a device or a pipe may have no end."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode) or found.st_size > _LONGEST:
        raise ValueError(f"expected a file of at most {_LONGEST} bytes")
    return Path(path).read_bytes()


Providers = Mapping[str, _Provider]


def read_providers(static: Mapping[str, str], environ: Mapping[str, str]) -> Providers:
    """The providers by name; one without a class is none, as in Kafka. Raises ConfigurationError."""
    found: dict[str, _Provider] = {}
    problems: list[str] = []
    for name in static.get(PROVIDERS, "").split(","):
        kind = static.get(f"{PROVIDERS}.{name}.class", "").strip()
        if not kind:
            continue
        try:
            found[name] = _provider(static, f"{PROVIDERS}.{name}", kind, environ)
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ConfigurationError(problems)
    return found


def _provider(static: Mapping[str, str], key: str, kind: str, environ: Mapping[str, str]) -> _Provider:
    """Raises ValueError with the line to show."""
    if kind == _ENVIRONMENT:
        setting = f"{key}.param.allowlist.pattern"
        try:
            allowed = compile_java(static.get(setting, ".*"))
        except JavaPatternError as error:
            raise ValueError(f"{setting}: {error}") from error
        names = {name: environ[name] for name in environ if allowed.fullmatch(name)}
        return _Provider(kind, setting in static, environment=names)
    if kind in (_FILE, _DIRECTORY):
        setting = f"{key}.param.allowed.paths"
        given = static.get(setting, "")
        paths = tuple(os.path.normpath(path.strip()) for path in given.split(",")) if given else None
        for path in paths or ():
            if not os.path.isabs(path) or not os.path.exists(path):
                raise ValueError(f"{setting} = {path!r}: expected absolute paths of what exists")
        return _Provider(kind, paths is not None, paths)
    known = ", ".join((_ENVIRONMENT, _FILE, _DIRECTORY))
    raise ValueError(
        f"{key}.class = {kind!r}: expected one of {known}, since no class of Java's can be run here. Have what deploys "
        "this broker write the values into a file or the environment"
    )


def _is_within(path: str, allowed: str) -> bool:
    return path == allowed or path.startswith(allowed.rstrip("/") + "/")


def resolved(given: Mapping[str, str], providers: Providers) -> dict[str, str]:
    """`given` with values in the place of the providers' variables. Raises ConfigurationError. Blocking, any thread."""
    problems: list[str] = []
    values = dict(given)
    for name, text in given.items():
        if "${" in text:
            try:
                values[name] = re.sub(_VARIABLE, lambda match: _value_of(match, providers), text)
            except _NoValueError as error:
                problems.append(f"{name} has {error}")
    if problems:
        raise ConfigurationError(problems)
    return values


def resolved_at_run_time(given: Mapping[str, str], providers: Providers) -> dict[str, str]:
    """As `resolved`, for what clients set: see the head of this file. Raises ConfigurationError."""
    problems = []
    for name, text in given.items():
        used = [match for match in re.finditer(_VARIABLE, text) if match[1] in providers]
        definition = alterable().get(base_name(name))
        if used and (definition is None or definition.type is not ConfigType.PASSWORD):
            problems.append(f"{name} has {used[0][0]}: at run time only passwords may be variables of config.providers")
        for match in used:
            if not providers[match[1]].is_limited:
                limit = f"{PROVIDERS}.{match[1]}.param.allowed.paths (or allowlist.pattern)"
                problems.append(f"{name} has {match[0]}: at run time that needs {limit} in the broker's file")
    if problems:
        raise ConfigurationError(problems)
    return resolved(given, providers)


def _value_of(variable: re.Match[str], providers: Providers) -> str:
    """Raises _NoValueError that shows the variable."""
    provider, path, key = variable.groups()
    if provider not in providers:
        return variable[0]
    try:
        return providers[provider].value(path or "", key)
    except _NoValueError as error:
        raise _NoValueError(f"{variable[0]}: {error}") from error
