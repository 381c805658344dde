"""Quotas: set, described, refused, kept. Kafka's answers to odd requests are in tests/conformance."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kio.schema.alter_client_quotas.v1.request import EntityData, EntryData, OpData
from kio.schema.describe_client_quotas.v1.request import ComponentData

from broker.quotas import connection_rates
from broker.quotas.connection_rates import ConnectionRates
from tests.doubles.clock import settle
from tests.unit.broker.admin_rig import Rig
from timing.rate import Windows

EXACT, DEFAULT, ANY = 0, 1, 2
Named = dict[str, str | None]


def entry(entity: Named, **values: float | None) -> EntryData:
    return EntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()),
        ops=tuple(OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()),
    )


async def alter(rig: Rig, *entries: EntryData, validate_only: bool = False) -> list[str | None]:
    answer = await rig.ask("alter_client_quotas", entries=entries, validate_only=validate_only)
    return [one.error_message for one in answer.entries]


async def told(rig: Rig, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    asked = tuple(ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components)
    answer = await rig.ask("describe_client_quotas", components=asked, strict=strict)
    found = [
        ({one.entity_type: one.entity_name for one in each.entity}, {one.key: one.value for one in each.values})
        for each in answer.entries
    ]
    return sorted(found, key=str)


@pytest.fixture
async def rig() -> Rig:
    one = await Rig.open()
    entities: tuple[Named, ...] = ({"user": "u"}, {"user": "u", "client-id": None}, {"ip": "10.0.0.1"})
    quotas = ({"producer_byte_rate": 1.0}, {"request_percentage": 2.5}, {"connection_creation_rate": 3.0})
    pairs = zip(entities, quotas, strict=True)
    assert await alter(one, *(entry(entity, **values) for entity, values in pairs)) == [None] * 3
    return one


OF_USER = ({"user": "u"}, {"producer_byte_rate": 1.0})
OF_BOTH = ({"client-id": None, "user": "u"}, {"request_percentage": 2.5})


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([("user", EXACT, "u")], False, [OF_USER, OF_BOTH]),
        ([("user", EXACT, "u")], True, [OF_USER]),
        ([("user", ANY, None), ("client-id", DEFAULT, None)], True, [OF_BOTH]),
        ([("client-id", ANY, None)], True, []),
        ([("user", DEFAULT, None)], False, []),
        ([("user", EXACT, "")], False, []),
        ([("ip", ANY, None)], True, [({"ip": "10.0.0.1"}, {"connection_creation_rate": 3.0})]),
    ],
)
async def test_what_a_filter_finds(rig: Rig, components: Any, strict: bool, expected: Any) -> None:
    found = await told(rig, *components, strict=strict)
    assert found == sorted(expected, key=str)
    again = await Rig.open(rig.fs)
    assert await told(again, *components, strict=strict) == found


async def test_quotas_are_told_by_entity_and_key() -> None:
    rig = await Rig.open()
    entities: tuple[Named, ...] = ({"user": "u"}, {"user": "b"}, {"client-id": "c", "user": "b"}, {"client-id": None})
    for one in entities:
        await alter(rig, entry(one, producer_byte_rate=1.0, consumer_byte_rate=2.0))
    answer = await rig.ask("describe_client_quotas", components=(), strict=False)
    named = [{one.entity_type: one.entity_name for one in each.entity} for each in answer.entries]
    assert named == [entities[3], entities[2], entities[1], entities[0]]
    assert [one.key for one in answer.entries[0].values] == ["consumer_byte_rate", "producer_byte_rate"]


async def test_values_are_changed_and_removed_one_by_one(rig: Rig) -> None:
    user: Named = {"user": "u"}
    asked = (("user", EXACT, "u"),)
    assert await alter(rig, entry(user, producer_byte_rate=9.0), validate_only=True) == [None]
    assert await told(rig, *asked, strict=True) == [OF_USER]
    assert await alter(rig, entry(user, producer_byte_rate=None, consumer_byte_rate=7.0)) == [None]
    assert await told(rig, *asked, strict=True) == [(user, {"consumer_byte_rate": 7.0})]
    assert await alter(rig, entry(user, consumer_byte_rate=None)) == [None]
    assert await told(rig, *asked, strict=True) == []


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (entry({}, producer_byte_rate=1.0), "no parts"),
        (entry({"group": "g"}), "no entity type group"),
        (entry({"user": ""}), "user is empty"),
        (entry({"ip": "10.0.0.2", "user": "u"}), "cannot be combined"),
        (entry({"ip": "10.0.0.2"}, producer_byte_rate=1.0), "no quota producer_byte_rate"),
        (entry({"user": "u"}, connection_creation_rate=1.0), "no quota connection_creation_rate"),
        (entry({"user": "u"}, producer_byte_rate=0.0), "producer_byte_rate must be greater than 0"),
        (entry({"user": "u"}, producer_byte_rate=1.5), "producer_byte_rate must be a whole number"),
        (entry({"user": "u"}, producer_byte_rate=2.0**64), "producer_byte_rate is too large"),
    ],
)
async def test_what_makes_no_sense_is_refused_and_the_rest_done(rig: Rig, refused: EntryData, why: str) -> None:
    message, none = await alter(rig, refused, entry({"client-id": "c"}, producer_byte_rate=5.0))
    assert message is not None and why in message
    assert none is None
    assert await told(rig, ("client-id", EXACT, "c")) == [({"client-id": "c"}, {"producer_byte_rate": 5.0})]


async def test_of_two_alterations_of_an_entity_the_first_is_made(rig: Rig) -> None:
    client: Named = {"client-id": "c"}
    twice = await alter(rig, entry(client, producer_byte_rate=5.0), entry(client, consumer_byte_rate=5.0))
    assert twice == ["The request names this entity, or one of its quotas, twice. Name each once."]
    assert await told(rig, ("client-id", EXACT, "c")) == [(client, {"producer_byte_rate": 5.0})]


async def limited(rig: Rig, *addresses: str) -> list[bool]:
    """Whether a second connection of each address within a moment would have to wait."""
    rates = ConnectionRates(Windows(2, 1000), rig.node.local.clock.monotonic_ms)
    image = rig.node.cluster.cache.image
    rates.follow(image.quotas)
    await settle()
    for address in addresses:
        rates.throttle_ms(address)
    return [rates.throttle_ms(address) > 0 for address in addresses]


async def test_a_host_counts_by_its_address_also_after_a_restart(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"host.example": "192.0.2.5"}

    async def resolve(host: str) -> str | None:
        return known.get(host)

    monkeypatch.setattr(connection_rates, "resolve", resolve)
    assert await limited(rig, "192.0.2.5", "192.0.2.6") == [False, False]
    named = [entry({"ip": name}, connection_creation_rate=1.0) for name in ("host.example", "no.host")]
    none, message = await alter(rig, *named)
    assert none is None
    assert message is not None and "no.host" in message
    assert await told(rig, ("ip", EXACT, "host.example"))
    again = await Rig.open(rig.fs)
    assert await limited(again, "192.0.2.5", "192.0.2.6") == [True, False]
    known.clear()
    assert await limited(again, "192.0.2.5", "192.0.2.6") == [False, False]


async def test_the_host_of_an_entity_that_is_refused_is_not_looked_up(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = []

    async def resolve(host: str) -> str | None:
        looked_up.append(host)
        return None

    monkeypatch.setattr(connection_rates, "resolve", resolve)
    both = entry({"user": "u", "ip": "slow.example"}, connection_creation_rate=1.0)
    assert len(await alter(rig, both, entry({"ip": "no.host"}), validate_only=True)) == 2
    assert looked_up == ["no.host"]


class NameServer:
    """Knows each name, answers late, and counts what is looked up at one time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.most_at_once = self._at_once = 0
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", self._look_up)

    async def _look_up(self, host: str, _port: None) -> list[Any]:
        self.asked.append(host)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(0)
        self._at_once -= 1
        return [(None, None, None, "", (f"192.0.2.{len(host)}", 0))]


async def test_names_of_hosts_are_looked_up_one_after_the_other_and_only_some_of_a_request(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = NameServer(monkeypatch)
    named = [
        entry({"ip": f"host-{number}.example"}, connection_creation_rate=1.0)
        for number in range(connection_rates.MOST_NAMES)
    ]
    await asyncio.gather(*(alter(rig, *named, validate_only=True) for _ in range(2)))
    assert (len(server.asked), server.most_at_once) == (2 * connection_rates.MOST_NAMES, 1)
    one_more = entry({"ip": "one.more"}, connection_creation_rate=1.0)
    address = entry({"ip": "2001:db8::1"}, connection_creation_rate=1.0)
    (message, *_) = await alter(rig, *named, address, one_more, validate_only=True)
    assert message is not None and "101 names of hosts" in message
    assert "one.more" not in server.asked


async def test_a_broker_looks_up_the_names_of_all_rates_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    server = NameServer(monkeypatch)
    rates = ConnectionRates(Windows(2, 1000), lambda: 0)
    names = [f"{'h' * number}.example" for number in range(1, 6)]
    for name in names:
        rates.follow({(("ip", name),): {"connection_creation_rate": 0.5}})
    rates.follow({(("ip", names[0]),): None})
    await settle()
    assert (server.asked, server.most_at_once) == (names[1:], 1)
    assert [rates.throttle_ms(f"192.0.2.{len(name)}") for name in names] == [0, *[1000] * 4]


async def test_the_rate_of_an_address_and_of_its_name_are_set_and_removed_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    NameServer(monkeypatch)
    rates = ConnectionRates(Windows(2, 1000), lambda: 0)
    by_name, by_address = (("ip", "h.example"),), (("ip", "192.0.2.9"),)
    none, many = {"connection_creation_rate": 0.5}, {"connection_creation_rate": 1000.0}
    rates.follow({by_name: none})
    await settle()
    assert rates.throttle_ms("192.0.2.9") == 1000
    rates.follow({by_address: many})
    assert rates.throttle_ms("192.0.2.9") == 0
    rates.follow({by_address: None})
    assert rates.throttle_ms("192.0.2.9") == 1000
    rates.follow({by_name: None})
    assert rates.throttle_ms("192.0.2.9") == 0
