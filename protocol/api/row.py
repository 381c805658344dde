"""A row of the table of APIs: all that is known of an API and that no schema says."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal

from .rights import Right

if TYPE_CHECKING:
    from ..errors import KafkaError

Log = Literal["", "topic", "group", "transaction", "share"]
"""The log that requests append to: the topic's that they name, or that of a coordinator."""

Feature = Literal["", "consumer", "share", "streams", "authorizer", "tokens", "telemetry"]
"""What may be switched off."""

Place = Literal["broker", "both", "decides", "controller"]
"""Where an API is served: by brokers, by controllers too, by controllers alone.

`decides`: a controller decides it, and a broker whose controllers are other nodes sends it on in an Envelope (KIP-590).
"""

API_VERSIONS_KEY = 18


@dataclass(frozen=True, slots=True, eq=False)
class Api:
    """One row.

    Attributes:
        name: kio's snake-case name.
        lowest, highest: the versions served.
        first_flexible: from this version on, messages and headers carry tagged fields (KIP-482).
        rights: what a client needs on a broker's listener, in the order of the checks.
        rights_of_nodes: the same on a controller's listener; None if they are the same.
        advertised_from: what ApiVersions reports in place of `lowest`.
        advertised: ApiVersions always lists the API; else only once metrics of clients are subscribed to.
        place: where it is served.
        writes: the log that requests append to.
        feature: what must be on; otherwise the answer is `when_off`.
        before_login: a connection answers it itself, before its client is known.
        own_codec: messages are read and written by hand (`protocol.produce_fetch`): a topic is a pair of its name or
            id, and its partitions.
        pipelined: a later request of the same connection may be handled before the answer is ready.
        only_reads: an unfinished answer may be dropped with its connection without harm.
        repeats: requests are often identical: the same object is then passed again, and must not be changed; nor must
            the response, which is written once if it is the same object too.
        knows_fenced_from: the first version that knows PRODUCER_FENCED (KIP-588).
        own_form_until: the last version whose answers have another form than the newest.
        fails_everywhere: a failure is told at the top of the answer, and at each item.
        terse: an error that has no text of its own is answered without one, not with its usual text.
        forgives: the codes of errors that are answered as if there were none.
        when_failed: values of an answer's fields, at the top or of an item, that failed; others have the schema's. So
            has a field with None here in versions where it cannot be null.
    """

    key: int
    name: str
    lowest: int
    highest: int
    first_flexible: int
    rights: tuple[Right, ...]
    _: KW_ONLY
    rights_of_nodes: tuple[Right, ...] | None = None
    advertised_from: int | None = None
    advertised: bool = True
    place: Place = "broker"
    writes: Log = ""
    feature: Feature = ""
    before_login: bool = False
    own_codec: bool = False
    pipelined: bool = False
    only_reads: bool = False
    repeats: bool = False
    knows_fenced_from: int = 0
    own_form_until: int = -1
    fails_everywhere: bool = False
    terse: bool = False
    forgives: tuple[int, ...] = ()
    when_failed: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError for a row that contradicts itself."""
        if not 0 <= self.lowest <= self.highest or (self.advertised_from or 0) > self.lowest:
            raise ValueError(f"{self.name}: versions {self.lowest} to {self.highest}, from {self.advertised_from}")
        if self.pipelined and self.repeats:
            raise ValueError(f"{self.name}: a repeated request must be answered before the next is read")
        if self.writes and self.only_reads:
            raise ValueError(f"{self.name}: it writes, so an answer may not be dropped")

    def serves(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def response_header_version(self, version: int) -> int:
        """ApiVersions responses always carry header 0: a client may not know yet what the broker speaks (KIP-511)."""
        return 1 if version >= self.first_flexible and self.key != API_VERSIONS_KEY else 0

    def known_error(self, version: int, error: KafkaError) -> KafkaError:
        """The error; PRODUCER_FENCED becomes INVALID_PRODUCER_EPOCH for a client that does not know it (KIP-588)."""
        if version >= self.knows_fenced_from:
            return error
        from ..errors import InvalidProducerEpoch, ProducerFenced  # they import kio's errors, and rows are read at once

        return InvalidProducerEpoch() if isinstance(error, ProducerFenced) else error

    @property
    def advertised_lowest(self) -> int:
        return self.lowest if self.advertised_from is None else self.advertised_from

    @property
    def kafka_name(self) -> str:
        """Kafka's name: `Produce` for `produce`."""
        return "".join(part.capitalize() for part in self.name.split("_"))


WHEN_OFF: dict[Feature, str] = {
    "consumer": "UNSUPPORTED_VERSION",
    "share": "UNSUPPORTED_VERSION",
    "streams": "UNSUPPORTED_VERSION",
    "authorizer": "SECURITY_DISABLED",
    "tokens": "DELEGATION_TOKEN_AUTH_DISABLED",
    "telemetry": "",
}
"""The error of an API whose feature is off; without one it is answered, but not advertised."""
