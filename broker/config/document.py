"""Writes docs/configuration.md from the definitions: `python -m broker.config.document > docs/configuration.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from broker.config.definition import ConfigDef, Value, to_text
from broker.config.defs import BROKER_CONFIGS, BROKER_SECTIONS, CHANGED_DEFAULTS, TOPIC_CONFIGS
from broker.config.defs.not_needed import ALTERED_ONLY
from broker.config.defs.odradek import PROFILES, PURPOSES
from broker.config.defs.topics import OF_SCHEMAS
from broker.config.resource_configs import BROKERS_NAMES, GROUP_CONFIGS

_INTRODUCTION = """\
# Configuration

<!-- Written by `python -m broker.config.document`; do not edit. -->

Names, types and defaults are those of Apache Kafka 4.4, except where [Changed defaults](#changed-defaults) says
otherwise. Names that start with `odradek.` are this broker's own.

Values come from three places, of which a later one wins:

1. a `server.properties` file, in Java's properties syntax;
2. environment variables: `KAFKA_` and the name in capitals, with `_` for `.`, `__` for `_` and `___` for `-`
   (`KAFKA_LOG_DIRS` is `log.dirs`, `ODRADEK_HTTP_PORT` is `odradek.http.port`, `CLUSTER_ID` is `odradek.cluster.id`).
   A backslash means what it means in a properties file, into which Kafka's images write these values. Other variables
   of these images, for users and certificates, are [read too](operations.md#environments-of-other-images);
3. `--set key=value` on the command line.

With `advertised.listeners` and no `listeners`, every interface is opened at the advertised ports.

A wrong value stops the start, and every wrong one is listed; values are bounded as in Kafka. A name that Kafka has and
this broker does not need, and a name that nobody knows, draw one warning each. Files may begin with a byte order mark.
Values may be variables of `config.providers` ([security.md](security.md#passwords-that-are-kept-elsewhere)).

A configuration that is altered while the broker runs is kept, and wins over all of these. *read-only* ones cannot be
altered, *per-broker* ones for a single broker only, *cluster-wide* ones for one broker or for all.
"""


def document() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    yield "## Changed defaults\n"
    yield from _table(
        ("Name", "Default here", "Why"),
        ((f"`{name}`", _shown(BROKER_CONFIGS[name].default), why) for name, why in CHANGED_DEFAULTS.items()),
    )
    yield from _profiles()
    yield "\n## Topics' own configurations\n"
    yield "Set per topic; a topic without a value of its own takes the broker's.\n"
    yield from _table(
        ("Name", "Meaning", "Value", "Default", "Broker's default"),
        ((*_common(d), ", ".join(f"`{s.name}`" for s in d.synonyms)) for d in _public(TOPIC_CONFIGS.values())),
    )
    yield "\nConfluent's, for topics that [validate schemas](registry.md#topics-that-validate-schemas):\n"
    yield from _table(("Name", "Meaning", "Value", "Default"), (_common(TOPIC_CONFIGS[name]) for name in OF_SCHEMAS))
    yield "\n## Groups' own configurations\n"
    yield "Set per group, before there is one or later (`kafka-configs.sh --entity-type groups`,"
    yield "IncrementalAlterConfigs with resource type GROUP); without a value of its own a group takes the broker's.\n"
    yield from _table(
        ("Name", "Meaning", "Value", "Default", "Broker's default"),
        ((*_common(d), _of_broker(d.name)) for d in _public(GROUP_CONFIGS.values())),
    )
    for title, definitions in BROKER_SECTIONS:
        yield f"\n## {title}\n"
        yield from _table(
            ("Name", "Meaning", "Value", "Default", "Altered"),
            ((*_common(d), d.mode.value) for d in _public(definitions)),
        )

    yield "\n## Set while the broker runs\n"
    yield "Never in a file; `kafka-configs.sh --entity-type brokers` sets them for one broker or for all (KIP-73).\n"
    effective = (definition for definition in ALTERED_ONLY.values() if definition.has_effect)
    yield from _table(("Name", "Meaning", "Value", "Default"), map(_common, effective))


def _of_broker(name: str) -> str:
    """The broker's configuration that gives a group's default, if there is one."""
    known = BROKERS_NAMES.get(name, f"group.{name}")
    return f"`{known}`" if known in BROKER_CONFIGS else ""


def _profiles() -> Iterator[str]:
    yield "\n## Profiles\n"
    yield "`odradek serve --profile NAME`, or the setting `odradek.profile`; any setting of your own wins over them.\n"
    yield from _table(("Profile", "For"), ((f"`{name}`", purpose) for name, purpose in PURPOSES.items()))
    for profile, settings in PROFILES.items():
        if settings:
            yield f"\nThe profile `{profile}` is\n"
            default = {name: _shown(BROKER_CONFIGS[name].default) for name in settings}
            rows = ((f"`{name}`", f"`{value}`", default[name]) for name, value in settings.items())
            yield from _table(("Name", "Value", "Default"), rows)


def _public(definitions: Iterable[ConfigDef]) -> Iterator[ConfigDef]:
    return (definition for definition in definitions if not definition.internal)


def _common(definition: ConfigDef) -> tuple[str, str, str, str]:
    unit = f" ({definition.unit})" if definition.unit else ""
    return f"`{definition.name}`", definition.doc, f"{definition.expected}{unit}", _shown(definition.default)


def _shown(default: Value) -> str:
    if default is None:
        return "unset"
    return f"`{to_text(default)}`" if to_text(default) else "empty"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"


if __name__ == "__main__":
    sys.stdout.write(document())
