"""By which names the HTTP ports are asked: a page elsewhere, whose name was pointed at this machine, reads nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from broker.config.broker_config import BrokerConfig
from broker.console.app import App
from broker.console.history import History
from broker.http.hosts import KnownHosts, is_known_host
from broker.observe import http_app
from broker.observe.metrics import Metrics
from broker.testkit.control.app import make_app
from tests.unit.broker.cluster_rig import CONTROLLER, ClusterRig
from tests.unit.broker.console.test_login import SASL
from tests.unit.broker.rig import Rig

STRANGER = "evil.example.org"
MONITORED = ("/metrics", "/admin/loggers", "/admin/loggers/root")


@pytest.mark.parametrize("host", ["127.0.0.1:9404", "[::1]:9404", "localhost", "broker", "a.localhost:1", "10.1.2.3"])
def test_addresses_and_names_without_a_dot_are_known(host: str) -> None:
    assert is_known_host(host, ())


@pytest.mark.parametrize("host", ["", "example.org", "127.0.0.1.example.org:9404", "localhost.example.org", ":9404"])
def test_other_names_are_not(host: str) -> None:
    assert not is_known_host(host, ("kafka.example.com", ""))
    assert is_known_host(host, ("*",))


@asynccontextmanager
async def asking(app: web.Application) -> AsyncIterator[aiohttp.ClientSession]:
    async with TestServer(app) as server, aiohttp.ClientSession(server.make_url("/")) as session:
        yield session


async def answers(session: aiohttp.ClientSession, paths: Iterable[str], host: str, **headers: str) -> list[int]:
    found = []
    for path in paths:
        async with session.get(path, headers={"Host": host, **headers}, allow_redirects=False) as answer:
            found.append(answer.status)
    return found


def metrics_app(*own: str, hosts: str = "") -> web.Application:
    known = KnownHosts(BrokerConfig.of({"odradek.console.hosts": hosts}), own)
    return http_app.make_app(Metrics(), lambda: None, tuple, known)


async def test_metrics_and_loggers_know_the_nodes_own_names_alone() -> None:
    async with asking(metrics_app("Kafka1.example.com", hosts="kafka.example.com")) as session:
        assert await answers(session, MONITORED, STRANGER) == [421] * 3
        for name in ("kafka.example.com", "kafka1.example.com:9404", "KAFKA1.example.com.", "127.0.0.1", "kafka"):
            assert await answers(session, MONITORED, name) == [200] * 3
    async with asking(metrics_app(hosts="*")) as session:
        assert await answers(session, MONITORED, STRANGER) == [200] * 3


async def test_health_is_told_by_whatever_name_it_is_asked_for() -> None:
    async with asking(metrics_app()) as session:
        assert await answers(session, ("/healthz", "/v1/status/ready"), STRANGER) == [200, 200]


async def test_the_control_interface_without_a_token_is_not_for_other_names() -> None:
    paths = ("/control/status", "/control/journal", "/control/topics", "/control/openapi.json", "/control/none")
    async with Rig() as rig, asking(make_app(rig.node, None)) as session:
        assert await answers(session, paths, STRANGER) == [421] * 5
        assert await answers(session, paths[:1], "broker.example") == [200]
        assert await answers(session, paths[:1], "127.0.0.1:9405") == [200]


async def test_the_control_interface_with_a_token_goes_by_the_token_alone() -> None:
    async with Rig() as rig, asking(make_app(rig.node, "secret")) as session:
        assert await answers(session, ["/control/status"], STRANGER, Authorization="Bearer secret") == [200]
        assert await answers(session, ["/control/status"], "localhost", Authorization="Bearer other") == [401]
        assert await answers(session, ["/control/status"], "localhost", Authorization="Bearer \xff") == [401]


async def test_the_console_knows_the_names_that_listeners_advertise() -> None:
    async with Rig() as rig:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", App(rig.node, History(rig.node)).answer)
        async with asking(app) as session:
            assert await answers(session, ["/", "/topics"], "broker.example:9404") == [200, 200]
            assert await answers(session, ["/", "/topics", "/none"], STRANGER) == [421] * 3


@pytest.mark.parametrize("config", [{}, SASL])
async def test_a_controller_alone_shows_no_page_without_a_login(config: dict[str, str]) -> None:
    async with ClusterRig(brokers=1, config=config, controller_roles="controller") as cluster:
        await cluster.create(2, "orders", 1)
        node = cluster.nodes[CONTROLLER].node
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", App(node, History(node)).answer)
        async with asking(app) as session:
            paths = ("/", "/topics", "/topic?name=orders", "/groups", "/transactions", "/cluster", "/journal")
            assert await answers(session, paths, "localhost") == [303] * 7
            assert await answers(session, ["/login"], "localhost") == [200]
