"""The control interface over HTTP: off unless asked for, loopback or token, and its errors."""

from __future__ import annotations

import http.client
import json

import pytest

from odradek import Broker
from odradek.control import ControlClient, ControlError, ControlUnavailableError
from odradek.controls import RemoteBroker


def test_a_broker_of_the_kit_says_what_it_is_and_describes_its_interface(shared_broker: Broker) -> None:
    status = shared_broker.status()
    assert (status["pid"], status["listeners"]) == (shared_broker.pid, shared_broker.listeners)
    assert RemoteBroker(shared_broker.bootstrap_servers, shared_broker.control.url).status() == status
    assert "/control/status" in shared_broker.control.get("/openapi.json")["paths"]


@pytest.mark.parametrize(
    "name", ["", "..", "{a}/b", "\U0001f600" * 800, "n" * 32_767], ids=lambda name: ascii(name[:5])
)
def test_a_group_of_any_name_can_be_asked_for(shared_broker: Broker, name: str) -> None:
    assert shared_broker.group(name).state == "Dead"
    with pytest.raises(ControlError, match="there is no such group") as caught:
        shared_broker.group(name).delete()
    assert caught.value.status == 404


def test_a_token_is_asked_for_and_a_page_in_a_browser_is_refused() -> None:
    with Broker({"odradek.control.token": "secret"}) as broker:
        assert broker.status()["pid"] == broker.pid
        with pytest.raises(ControlError, match="Authorization: Bearer") as caught:
            ControlClient(broker.control.url, "wrong").get("/status")
        assert caught.value.status == 401
    with Broker() as broker:
        connection = http.client.HTTPConnection(broker.control.url.removeprefix("http://"))
        connection.request("GET", "/control/status", headers={"Origin": "http://evil.example"})
        response = connection.getresponse()
        assert (response.status, "web pages" in json.loads(response.read())["error"]) == (403, True)
        connection.close()


def test_the_client_follows_a_restart_and_says_when_nobody_answers() -> None:
    with Broker() as broker:
        before = broker.status()["pid"]
        control = broker.control
        broker.restart()
        assert broker.status()["pid"] == broker.pid != before
        broker.kill()
        with pytest.raises(ControlUnavailableError, match="does not answer"):
            control.get("/status")


def test_without_odradek_control_there_is_none() -> None:
    with Broker({"odradek.control": ""}) as broker, pytest.raises(RuntimeError, match="no control interface"):
        broker.status()


@pytest.mark.parametrize("address", ["9405", "127.0.0.1:x", "0.0.0.0:0"])
def test_a_wrong_or_open_address_is_refused(address: str) -> None:
    with pytest.raises(Exception, match=r"odradek\.control = "), Broker({"odradek.control": address}):
        pass
