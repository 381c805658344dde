"""A registry that is killed (kill -9) in the middle of random calls: it answers as the model does, before and after.

Of a call that is cut off nobody knows whether it was done: then it must be done whole, or not at all. In the end a
second registry reads the topic. `--torture` lives many lives.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
from copy import deepcopy
from urllib.parse import urlsplit

import pytest

from odradek import Broker
from tests.unit.broker.registry.model import Call, Model, all_reads, forget_the_last, new_schema, random_call, seen

SETTINGS = {"schema.registry.listeners": "http://127.0.0.1:0"}
CALLS = 60
KILLS, MORE_KILLS = 4, 100
LONGEST_S = 0.03
"""After so long at most a call is cut off; it takes some milliseconds."""


class Client:
    """Asks a broker's registry, by one connection as long as that lasts."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._connection: http.client.HTTPConnection | None = None

    def answer(self, call: Call) -> object:
        """Raises OSError or HTTPException if the broker is killed meanwhile."""
        if self._connection is None:
            place = urlsplit(self.broker.registry_urls[0])
            self._connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
        method, path, body = call.request
        content = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, content, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            return seen(call, answer.status, json.loads(answer.read()))
        except (OSError, http.client.HTTPException):
            self._connection.close()
            self._connection = None
            raise


def same(client: Client, model: Model) -> Call | None:
    """The first read that is not answered as the model does; None if all are."""
    return next((call for call in all_reads(model) if client.answer(call) != model.answer(call)), None)


def killed_while(client: Client, chance: random.Random, model: Model) -> Model:
    """Make calls until the kill, and return the model as the registry must be then."""
    timer = threading.Timer(LONGEST_S * chance.random(), client.broker.kill)
    timer.start()
    try:
        while True:
            call = random_call(chance, model)
            told = client.answer(call)
            assert told == model.answer(call), call
    except (OSError, http.client.HTTPException):
        timer.join()
    client.broker.start()
    if same(client, model) is None:
        return model
    done = model.after(call)
    assert same(client, done) is None, call
    return done


@pytest.mark.usefixtures("own_cluster")
@pytest.mark.timeout(1500)
def test_a_registry_that_is_killed_answers_as_the_model_and_so_does_a_second_one(
    request: pytest.FixtureRequest,
) -> None:
    kills = MORE_KILLS if request.config.getoption("--torture") else KILLS
    chance, model = random.Random(kills), Model()
    with Broker(SETTINGS, profile="dev") as broker, Broker(SETTINGS, profile="dev") as second:
        first, other = Client(broker), Client(second)
        for _ in range(kills):
            for _ in range(CALLS):
                call = random_call(chance, model)
                assert first.answer(call) == model.answer(call), call
            for call in forget_the_last(model):
                assert first.answer(call) == model.answer(call), call
            model = killed_while(first, chance, model)
        assert same(first, model) is None
        copied = second.topic("_schemas", partitions=1, configs={"cleanup.policy": "compact"})
        copied.produce_many(broker.topic("_schemas").records())
        assert same(other, model) is None
        for client in (first, other):
            call = new_schema(model)
            assert client.answer(call) == deepcopy(model).answer(call), call
            assert "Traceback" not in client.broker.log(), client.broker.log()
