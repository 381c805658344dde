"""The levels of loggers, changed while a broker runs: by BROKER_LOGGER resources and over HTTP."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
import structlog
from aiohttp.test_utils import make_mocked_request

from broker import logging as log_levels
from broker.config.broker_config import BrokerConfig
from broker.logging import configure
from broker.observe.http import HttpServer
from broker.observe.http_app import routes
from broker.observe.metrics import Metrics
from tests.unit.broker.admin_rig import Rig
from tests.unit.broker.api.test_config_handlers import DELETE, LOGGER, SET, change, describe
from timing.clock import SystemClock

OURS, OTHER = "broker.network.server", "broker.membership.publisher"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.setLevel("INFO")
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in (OURS, "broker.network", "broker", "aiohttp"):
        log_levels.unset_level(name)
    structlog.reset_defaults()


def said(file: io.StringIO) -> list[str]:
    return [json.loads(line)["event"] for line in file.getvalue().splitlines()]


async def level_of(rig: Rig, name: str) -> str:
    (config,) = (await describe(rig, LOGGER, "1", name)).configs
    return str(config.value)


async def test_a_level_set_by_a_client_is_in_force_for_what_is_below_and_for_libraries() -> None:
    file = io.StringIO()
    configure("info", "json", file)
    rig = await Rig.open()
    for name in ("broker.network", "aiohttp"):
        assert await level_of(rig, name) == "INFO"
        assert await change(rig, (LOGGER, "1", [(name, SET, "DEBUG")])) == ["none"]
        assert await level_of(rig, name) == "DEBUG"
    assert await level_of(rig, OURS) == "DEBUG"
    assert await level_of(rig, OTHER) == "INFO"
    file.truncate(0)
    file.seek(0)
    structlog.get_logger(OURS).debug("ours")
    structlog.get_logger(OTHER).debug("of another package")
    logging.getLogger("aiohttp").debug("a library's")
    assert said(file) == ["ours", "a library's"]


async def test_a_logger_without_its_own_level_follows_the_package_above_again() -> None:
    rig = await Rig.open()
    assert await change(rig, (LOGGER, "1", [("broker", SET, "ERROR"), (OURS, SET, "TRACE")])) == ["none"]
    assert (await level_of(rig, OURS), await level_of(rig, OTHER)) == ("TRACE", "ERROR")
    assert await change(rig, (LOGGER, "1", [(OURS, DELETE, None)])) == ["none"]
    assert await level_of(rig, OURS) == "ERROR"


async def test_nothing_changes_if_one_of_the_levels_is_wrong_or_all_are_only_validated() -> None:
    rig = await Rig.open()
    levels = log_levels.logger_levels()
    assert await change(rig, (LOGGER, "1", [("root", SET, "DEBUG"), (OURS, SET, "LOUD")])) == ["invalid_config"]
    assert await change(rig, (LOGGER, "1", [("root", SET, None)])) == ["invalid_request"]
    assert await change(rig, (LOGGER, "1", [("root", SET, "DEBUG")]), validate_only=True) == ["none"]
    assert log_levels.logger_levels() == levels
    assert await change(rig, (LOGGER, "1", [("root", SET, "FATAL")])) == ["none"]
    assert log_levels.logger_levels()["root"] == "FATAL"


async def asked(
    method: str, name: str = "", body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """The status and the answer of a server that is opened for this question."""
    server = HttpServer(BrokerConfig.of({"odradek.http.port": "0"}), Metrics(), lambda: None, SystemClock())
    port = await server.bind()
    await server.serve()
    data = body if isinstance(body, str) else json.dumps(body)
    try:
        async with (
            aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
            session.request(method, f"/admin/loggers{name}", data=data, headers=headers) as answer,
        ):
            return answer.status, await answer.json()
    finally:
        await server.stop()


async def test_levels_over_http_are_as_in_kip_495() -> None:
    status, changed = await asked("PUT", "/broker.network", {"level": "debug"})
    assert status == 200
    assert {"broker.network", OURS} <= {*changed}
    assert all(name.startswith("broker.network") for name in changed)
    assert await asked("GET", "/broker.network") == (200, {"level": "DEBUG"})
    status, listed = await asked("GET")
    assert (status, listed["root"], listed[OURS]) == (200, {"level": "INFO"}, {"level": "DEBUG"})


@pytest.mark.parametrize(
    ("method", "name", "body", "headers", "status", "message"),
    [
        ("GET", "no.such", None, None, 404, "Logger no.such does not exist"),
        ("PUT", "no.such", {"level": "INFO"}, None, 404, "Logger no.such does not exist"),
        ("PUT", "root", {"level": "LOUD"}, None, 400, "level = 'LOUD': expected one of DEBUG, ERROR"),
        ("PUT", "root", {}, None, 400, "level = None: expected one of"),
        ("PUT", "root", ["DEBUG"], None, 400, "level = None: expected one of"),
        ("PUT", "root", "{", None, 400, "The body must be JSON"),
        ("PUT", "root", {"level": "DEBUG"}, {"Origin": "http://evil.example"}, 403, "from this machine only"),
        ("PUT", "root", {"level": "DEBUG"}, {"X-Forwarded-For": "10.0.0.7"}, 403, "from this machine only"),
        ("PUT", "root", {"level": "DEBUG"}, {"X-Real-IP": "10.0.0.7"}, 403, "from this machine only"),
        ("PUT", "root", {"level": "DEBUG"}, {"Via": "1.1 proxy"}, 403, "from this machine only"),
        ("PUT", "root", {"level": "DEBUG"}, {"Forwarded": "for=10.0.0.7"}, 403, "from this machine only"),
    ],
)
async def test_what_is_refused_over_http(
    method: str, name: str, body: Any, headers: dict[str, str] | None, status: int, message: str
) -> None:
    levels = log_levels.logger_levels()
    found, answer = await asked(method, f"/{name}", body, headers)
    assert (found, answer["error_code"]) == (status, status)
    assert message in answer["message"]
    after = log_levels.logger_levels()
    assert {name: after[name] for name in levels} == levels


@pytest.mark.parametrize(
    ("host", "status"), [("10.0.0.7", 403), ("2001:db8::1", 403), ("127.0.0.1", 404), ("::1", 404)]
)
async def test_another_machine_may_not_change_levels(host: str, status: int) -> None:
    (put,) = (route.handler for route in routes() if route.method == "PUT")
    transport: Any = SimpleNamespace(get_extra_info=lambda name, default=None: (host, 5000))
    request = make_mocked_request("PUT", "/admin/loggers/no.such", match_info={"name": "no.such"}, transport=transport)
    answer: Any = await put(request)
    assert answer.status == status
