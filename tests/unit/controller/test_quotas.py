"""AlterClientQuotas as a decision: records of an entity's quotas, and what is refused."""

from __future__ import annotations

import math

import pytest

from controller.quotas import USER_AND_CLIENT_KEYS, Alteration, _check, decide
from metadata.image import EMPTY, MetadataImage
from metadata.settings import QuotaKey
from protocol.errors import InvalidRequest
from protocol.metadata.topics import ClientQuotaRecord, QuotaEntity
from tests.unit.controller.images import after

HOSTS = frozenset({"10.0.0.1", "host.example"})
USER: QuotaKey = (("user", "u"),)
BOTH: QuotaKey = (("client-id", None), ("user", "u"))
HOST: QuotaKey = (("ip", "host.example"),)
OF_ALL_HOSTS: QuotaKey = (("ip", None),)


def alteration(entity: QuotaKey, **values: float | None) -> Alteration:
    return Alteration(entity, list(values.items()))


def altered(image: MetadataImage, *alterations: Alteration) -> MetadataImage:
    """The image after alterations that are all made."""
    decision = decide(image, alterations, HOSTS, validate_only=False)
    assert decision.response == [(each.entity, None) for each in alterations]
    return after(image, decision)


def test_quotas_are_set_changed_and_removed_one_by_one() -> None:
    image = altered(EMPTY, alteration(USER, producer_byte_rate=1.0, consumer_byte_rate=2.0))
    image = altered(image, alteration(BOTH, request_percentage=2.5), alteration(USER, producer_byte_rate=None))
    assert {key: dict(quotas) for key, quotas in image.quotas.items()} == {
        USER: {"consumer_byte_rate": 2.0},
        BOTH: {"request_percentage": 2.5},
    }
    assert USER not in altered(image, alteration(USER, consumer_byte_rate=None)).quotas


def test_a_record_names_the_entity_part_by_part() -> None:
    decision = decide(EMPTY, [alteration(BOTH, producer_byte_rate=5.0)], HOSTS, validate_only=False)
    entity = (
        QuotaEntity(entity_type="client-id", entity_name=None),
        QuotaEntity(entity_type="user", entity_name="u"),
    )
    assert decision.records == [ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=5.0, remove=False)]


def test_only_differences_are_written() -> None:
    image = altered(EMPTY, alteration(USER, producer_byte_rate=1.0))
    same = alteration(USER, producer_byte_rate=1.0, consumer_byte_rate=None, connection_creation_rate=None)
    assert not decide(image, [same], HOSTS, validate_only=False).records


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        (USER, "producer_byte_rate", float(2**53)),
        (USER, "request_percentage", 0.001),
        (USER, "controller_mutation_rate", 1.5),
        (USER, "consumer_byte_rate", 4.0000001),  # as whole as Kafka wants it
        (HOST, "connection_creation_rate", float(2**31 - 1)),
        (OF_ALL_HOSTS, "connection_creation_rate", 1.0),
        (USER, "request_percentage", 1e300),
        ((("user", None),), "producer_byte_rate", 1.0),
    ],
)
def test_what_may_be_set(entity: QuotaKey, key: str, value: float) -> None:
    assert altered(EMPTY, Alteration(entity, [(key, value)])).quotas[entity][key] == value


@pytest.mark.parametrize(
    ("refused", "word"),
    [
        (alteration((), producer_byte_rate=1.0), "no parts"),
        (alteration((("group", "g"),)), "group"),
        (alteration((("user", ""),)), "empty"),
        (alteration((("ip", "10.0.0.1"), ("user", "u"))), "combined"),
        (alteration((("ip", "no.host"),), connection_creation_rate=1.0), "no.host"),
        (alteration(HOST, producer_byte_rate=1.0), "producer_byte_rate"),
        (alteration(USER, connection_creation_rate=1.0), "connection_creation_rate"),
        (alteration(USER, no_such=1.0), "no_such"),
        (alteration(USER, producer_byte_rate=0.0), "greater than 0"),
        (alteration(USER, producer_byte_rate=-1.0), "greater than 0"),
        (alteration(USER, producer_byte_rate=1.5), "whole"),
        (alteration(USER, producer_byte_rate=2.0**64), "too large"),
        (alteration(HOST, connection_creation_rate=2.0**31), "too large"),
        (Alteration(USER, [("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0)]), "twice"),
    ],
)
def test_a_refused_quota_entity_leaves_the_others(refused: Alteration, word: str) -> None:
    client: QuotaKey = (("client-id", "c"),)
    decision = decide(EMPTY, [refused, alteration(client, producer_byte_rate=5.0)], HOSTS, validate_only=False)
    (_, error), other = decision.response
    assert isinstance(error, InvalidRequest)
    assert word in error.message
    assert other == (client, None)
    assert list(after(EMPTY, decision).quotas) == [client]


def test_of_an_entity_with_one_wrong_quota_nothing_is_changed() -> None:
    decision = decide(
        EMPTY, [alteration(USER, consumer_byte_rate=5.0, producer_byte_rate=0.0)], HOSTS, validate_only=False
    )
    assert not decision.records


def test_of_two_alterations_of_an_entity_the_first_is_made_and_the_other_refused() -> None:
    twice = [alteration(USER, producer_byte_rate=5.0), alteration(USER, consumer_byte_rate=5.0)]
    decision = decide(EMPTY, twice, HOSTS, validate_only=False)
    ((entity, error),) = decision.response
    assert entity == USER
    assert isinstance(error, InvalidRequest)
    assert dict(after(EMPTY, decision).quotas[USER]) == {"producer_byte_rate": 5.0}


def test_validate_only_answers_and_writes_nothing() -> None:
    wanted = [alteration(USER, producer_byte_rate=5.0), alteration((("user", ""),))]
    decision = decide(EMPTY, wanted, HOSTS, validate_only=True)
    assert [error is None for _, error in decision.response] == [True, False]
    assert not decision.records


@pytest.mark.parametrize("value", [math.inf, math.nan])
@pytest.mark.parametrize("key", ["producer_byte_rate", "request_percentage", "controller_mutation_rate"])
def test_what_is_no_finite_number_is_refused(key: str, value: float) -> None:
    """As by Apache Kafka 4.4; 4.1 took most of them."""
    with pytest.raises(InvalidRequest, match="finite"):
        _check(USER_AND_CLIENT_KEYS, key, value)
