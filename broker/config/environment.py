"""`KAFKA_*` environment variables, by the convention of the apache/kafka image (`KafkaDockerWrapper`)."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PREFIX = "KAFKA_"
# These steer the image or the JVM; they are not configurations of the broker.
_IMAGE_NAMES = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HOME",
        "KAFKA_HEAP_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_DEBUG",
        "KAFKA_CLASSPATH",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    }
)
_IMAGE_PREFIXES = ("KAFKA_LOG4J_", "KAFKA_JMX_", "KAFKA_TOOLS_")
_UNDERSCORES = "_{1,3}"
_MEANING = {"_": ".", "__": "_", "___": "-"}


def config_name(variable: str) -> str | None:
    """The configuration that an environment variable sets; None if it steers the image or is not Kafka's.

    `___` is `-`, `__` is `_` and `_` is `.`; `ODRADEK_HTTP_PORT` is `odradek.http.port`; `CLUSTER_ID` is
    `odradek.cluster.id`.
    """
    if variable == "CLUSTER_ID":
        return "odradek.cluster.id"
    if variable.startswith("ODRADEK_"):
        return _name_of(variable)
    if not variable.startswith(_PREFIX) or steers_image(variable):
        return None
    return _name_of(variable.removeprefix(_PREFIX))


def steers_image(variable: str) -> bool:
    """Whether `variable` belongs to Kafka's image or start scripts, and means nothing here."""
    return variable in _IMAGE_NAMES or variable.startswith(_IMAGE_PREFIXES)


def read_environment(environ: Mapping[str, str]) -> tuple[dict[str, tuple[str, str]], tuple[str, ...]]:
    """The configurations by name, each with (variable, value), and the variables that steer the image."""
    found: dict[str, tuple[str, str]] = {}
    ignored: list[str] = []
    for variable, value in sorted(environ.items()):
        name = config_name(variable)
        if name:
            found[name] = (variable, value)
        elif steers_image(variable):
            ignored.append(variable)
    return found, tuple(ignored)


def _name_of(text: str) -> str:
    return re.sub(_UNDERSCORES, lambda run: _MEANING[run.group()], text).lower()
