"""kill -9 while schemas are registered: what was answered is there, with its id, and no id has two schemas."""

from __future__ import annotations

import http.client
import json
import random
import threading
from typing import Any
from urllib.parse import urlsplit

from odradek import Broker

SETTINGS = {"schema.registry.listeners": "http://127.0.0.1:0"}
ROUNDS, CLIENTS = 4, 3


def ask(url: str, method: str, path: str, body: object = None) -> tuple[int, object]:
    """Raises OSError or HTTPException if the broker does not answer."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def everything(url: str) -> list[Any]:
    listed: list[Any] = []
    while True:
        _, part = ask(url, "GET", f"/schemas?offset={len(listed)}")
        assert isinstance(part, list)
        if not part:
            return listed
        listed += part


class Registering:
    """A client in a thread that registers one schema after the other until nobody answers."""

    def __init__(self, url: str, name: str) -> None:
        self._url, self._name = url, name
        self.answered: dict[str, int] = {}
        self.enough = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for count in range(10_000):
            schema = json.dumps({"type": "fixed", "name": f"{self._name}_{count}", "size": 1})
            try:
                status, answer = ask(self._url, "POST", f"/subjects/{self._name}-{count}/versions", {"schema": schema})
            except (OSError, http.client.HTTPException):
                return
            assert status == 200, answer
            assert isinstance(answer, dict)
            self.answered[f"{self._name}-{count}"] = answer["id"]
            if count > 5:
                self.enough.set()

    def end(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()


def test_answered_registrations_survive_kill_9_and_ids_are_given_once() -> None:
    answered: dict[str, int] = {}
    with Broker(SETTINGS, profile="dev") as broker:
        for number in range(ROUNDS):
            url = broker.registry_urls[0]
            clients = [Registering(url, f"r{number}c{at}") for at in range(CLIENTS)]
            for client in clients:
                assert client.enough.wait(60)
            threading.Event().wait(random.random() / 10)
            broker.kill()
            for client in clients:
                client.end()
                answered |= client.answered
            broker.start()
            url = broker.registry_urls[0]
            found = {schema["subject"]: schema["id"] for schema in everything(url)}
            assert {subject: found.get(subject) for subject in answered} == answered
            assert len(set(found.values())) == len(found)
        assert "Traceback" not in broker.log()
