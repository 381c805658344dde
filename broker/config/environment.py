"""The two places where settings are written: a file in Java's properties syntax, and `KAFKA_*` environment variables.

Properties are read as `java.util.Properties.load` reads them. Variables follow the conventions of the images of Apache
Kafka, Confluent and Bitnami, which write them as they stand into such a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# UTF-8's, also as it is read as Latin-1, which Java's properties are: some editors of Windows begin a file with it.
_BYTE_ORDER_MARK = r"\A(?:\xef\xbb\xbf|\ufeff)"
_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = r"(?s)\\(?:(?:\r\n|\n|\r)[ \t\f]*|u([0-9a-fA-F]{4})|(.))"
_KEY = r"(?s)(?:\\.|[^\\=: \t\f])*"
_SEPARATOR = r"[ \t\f]*(?:[=:][ \t\f]*)?"
_LINE_END = r"\r\n|\n|\r"

_OF_COMMANDS = {"ODRADEK_BOOTSTRAP", "ODRADEK_CONTEXT", "ODRADEK_CONTEXTS"}
"""What the commands that are clients read (odradek.cli)."""
_KAFKA, _BITNAMI, _OWN = "KAFKA_", "KAFKA_CFG_", "ODRADEK_"
_NAMES = {
    "CLUSTER_ID": "odradek.cluster.id",
    "KAFKA_CLUSTER_ID": "odradek.cluster.id",
    "KAFKA_KRAFT_CLUSTER_ID": "odradek.cluster.id",
    "KAFKA_CREATE_TOPICS": "odradek.create.topics",
}
"""Variables whose names do not tell the setting by themselves."""
# These steer an image or the JVM; they are not configurations of the broker.
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
        "KAFKA_ENABLE_KRAFT",
        "KAFKA_SKIP_KRAFT_STORAGE_INIT",
        "KAFKA_KRAFT_BOOTSTRAP_SCRAM_USERS",
        "KAFKA_INITIAL_CONTROLLERS",
        "KAFKA_VOLUME_DIR",
        # How the clients in the image log in.
        "KAFKA_CLIENT_LISTENER",
        "KAFKA_CLIENT_LISTENER_NAME",
        "KAFKA_CLIENT_SASL_MECHANISM",
    }
)
_IMAGE_PREFIXES = ("KAFKA_LOG4J_", "KAFKA_JMX_", "KAFKA_TOOLS_", "KAFKA_ZOOKEEPER_TLS_")
_OF_IMAGES = re.compile(
    r"KAFKA_TLS_([A-Z0-9_]+_)?CLIENT_AUTH|KAFKA_MOUNTED_CONF_DIR|KAFKA_(TLS_(TYPE|TRUSTSTORE_FILE)|CERTIFICATE_PASSWORD"
    r"|CLIENT_(USERS|PASSWORDS)|BROKER_(USER|PASSWORD)|(INTER_BROKER|CONTROLLER)_(USER|PASSWORD))(_FILE)?"
)
"""What Bitnami's scripts make settings of: see `broker.config.image_variables`."""
LOGIN_CONFIG = "java.security.auth.login.config"
OF_SECRETS = re.compile(r"((?:listener\.name\.[^.]+\.)?ssl\.)(keystore|truststore|key)\.(filename|credentials)")
"""What Apache's and Confluent's scripts make settings of, as a name."""
_JVM_OPTIONS = ("KAFKA_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_HEAP_OPTS")
"""Where the JVM's options are, of which the JAAS file counts."""
_EMPTY_MEANS_NONE = "ssl.endpoint.identification.algorithm"
"""Empty, it switches the check of host names off; every other empty variable counts as unset."""
_UNDERSCORES = "_{1,3}"
_MEANING = {"_": ".", "__": "_", "___": "-"}
# Kubernetes sets these for a service that is named, for instance, `kafka` or `odradek-http`.
_SERVICE_LINK = re.compile(
    r"(KAFKA|ODRADEK)(_[A-Z0-9_]+)?_(SERVICE_(HOST|PORT)(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_PORT = re.compile(r"(KAFKA|ODRADEK)(_[A-Z0-9_]+)?_PORT")
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values of `text`; the last one counts if a key is given twice.

    Raises ValueError for a `\\u` that is not followed by four hex digits; it shows no value, which may be a secret.
    """
    pairs: dict[str, str] = {}
    for line in _logical_lines(re.sub(_BYTE_ORDER_MARK, "", text)):
        key = _leading(_KEY, line)
        rest = line[len(key) :]
        try:
            pairs[unescape(key)] = unescape(rest[len(_leading(_SEPARATOR, rest)) :])
        except ValueError as error:
            raise ValueError(f"malformed \\uxxxx at {key}") from error
    return pairs


def _leading(pattern: str, text: str) -> str:
    """The match of `pattern`, which may be empty, at the start of `text`."""
    match = re.match(pattern, text)
    return match.group() if match else ""


def _logical_lines(text: str) -> Iterator[str]:
    """The lines, without comments and blank ones; an odd number of backslashes at its end continues a line."""
    pending: str | None = None
    for natural in re.split(_LINE_END, text):
        line = natural.lstrip(_BLANK)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = line[:-1]
            continue
        pending = None
        yield line
    if pending:
        yield pending


def unescape(text: str) -> str:
    """A value as it is meant where it stands in such a file, be it on several lines. Raises ValueError."""
    if "\\" not in text:
        return text

    def char(match: re.Match[str]) -> str:
        digits, plain = match.groups()
        if digits:
            return chr(int(digits, 16))
        if plain == "u":
            raise ValueError("malformed \\uxxxx")
        return _ESCAPES.get(plain, plain) if plain else ""  # the end of a line that the next one continues

    found = re.sub(_ESCAPE, char, text)
    # Two escapes may be one character beyond the basic plane, as in Java's strings.
    return found if found.isprintable() else found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(frozen=True, slots=True)
class Environment:
    """The settings that the environment has.

    Attributes:
        settings: (variable, value) by the configuration that it sets; an empty value counts as unset.
        of_images: (name, value) of what the images' scripts make settings of.
        bitnamis: whether it is written for Bitnami's image, which has rules of its own.
        image: variables that steer Kafka's image or its JVM, and mean nothing here.
        service_links: variables of Kubernetes' service links, which are no settings whatever their names.
    """

    settings: Mapping[str, tuple[str, str]]
    of_images: Mapping[str, str]
    bitnamis: bool
    image: tuple[str, ...]
    service_links: tuple[str, ...]

    @property
    def has_image_variables(self) -> bool:
        """Whether settings have to be made of anything that the names of variables do not tell."""
        return bool(self.of_images or self.bitnamis) or any(map(OF_SECRETS.fullmatch, self.settings))


def read_environment(environ: Mapping[str, str]) -> Environment:
    """Raises ValueError, naming the variable, for a value that a properties file could not have."""
    settings: dict[str, tuple[str, str]] = {}
    of_images: dict[str, str] = {}
    image: list[str] = []
    links: list[str] = []
    for variable, value in sorted(environ.items()):
        if is_service_link(variable, value):
            links.append(variable)
        elif _OF_IMAGES.fullmatch(variable) or (variable in _JVM_OPTIONS and LOGIN_CONFIG in value):
            if value:
                of_images[variable] = value
        elif steers_image(variable):
            image.append(variable)
        elif (name := config_name(variable)) and (value or name.endswith(_EMPTY_MEANS_NONE)):
            settings[name] = (variable, _value(variable, value))
    bitnamis = any(name.startswith(_BITNAMI) or _OF_IMAGES.fullmatch(name) for name in environ)
    return Environment(settings, of_images, bitnamis, tuple(image), tuple(links))


def _value(variable: str, value: str) -> str:
    """Return what a variable sets: the images write it as it stands into a properties file, with its backslashes."""
    if not variable.startswith(_KAFKA):
        return value
    try:
        return unescape(value)
    except ValueError as error:
        raise ValueError(f"{variable}: {error}") from error


def config_name(variable: str) -> str | None:
    """The configuration that a variable sets; None if it steers an image, is read by clients, or is not Kafka's.

    `___` is `-`, `__` is `_` and `_` is `.`; `ODRADEK_HTTP_PORT` is `odradek.http.port`, `KAFKA_CFG_X` is `KAFKA_X`.
    """
    if variable in _NAMES:
        return _NAMES[variable]
    if variable in _OF_COMMANDS:
        return None
    if variable.startswith(_OWN):
        return _name_of(variable)
    if not variable.startswith(_KAFKA) or steers_image(variable) or _OF_IMAGES.fullmatch(variable):
        return None
    if not variable.startswith(_BITNAMI):
        return _name_of(variable.removeprefix(_KAFKA))
    # There the names of such listeners are written with one underscore.
    return re.sub(r"\bsasl\.(ssl|plaintext)\b", r"sasl_\1", _name_of(variable.removeprefix(_BITNAMI)))


def steers_image(variable: str) -> bool:
    """Whether `variable` belongs to an image of Kafka or its start scripts, and means nothing here."""
    return variable in _IMAGE_NAMES or variable.startswith(_IMAGE_PREFIXES)


def is_service_link(variable: str, value: str) -> bool:
    """Whether Kubernetes set the variable for a service (`enableServiceLinks`)."""
    if _SERVICE_LINK.fullmatch(variable):
        return True
    return bool(_SERVICE_PORT.fullmatch(variable) and _SERVICE_ADDRESS.match(value))


def _name_of(text: str) -> str:
    return re.sub(_UNDERSCORES, lambda run: _MEANING[run.group()], text).lower()
