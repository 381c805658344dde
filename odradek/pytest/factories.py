"""Fixtures of your own, in a conftest.py: other brokers beside the session's, and clean tests with them.

from odradek.pytest import factories

small_broker = factories.broker("small_broker", settings={"message.max.bytes": 1000})
small = factories.clean("small", of="small_broker")
pair = factories.cluster("pair", brokers=2)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import pytest

from odradek.cluster.cluster import Cluster
from odradek.controls import Controls
from odradek.process import Broker
from odradek.pytest.options import Options, require_seconds
from odradek.pytest.pool import cleaned, pool_of
from odradek.security import Users
from odradek.starting import require_profile

Scope = Literal["session", "package", "module", "class", "function"]
SCOPES = ("session", "package", "module", "class", "function")


def broker(
    name: str,
    settings: Mapping[str, object] | None = None,
    scope: Scope = "session",
    *,
    profile: str = "test",
    security: str | None = None,
    users: Users | None = None,
    acls: Iterable[str] | None = None,
    start_timeout: float | None = None,
) -> Any:
    """A fixture of this name with a running `odradek.Broker`, one for each `scope`.

    `security`, `users`, `acls` and `start_timeout` (seconds) are as those of `odradek.Broker`.
    `settings` come on top of those of the session (`odradek_settings`, `--odradek-set`). If the broker dies, the test
    at that time fails, and the next one gets a new one at the same address.
    """
    _check(name, scope)
    require_profile(profile)
    limit = {} if start_timeout is None else {"start_timeout": require_seconds("start_timeout", start_timeout)}

    @pytest.fixture(scope=scope, name=name)
    def fixture(request: pytest.FixtureRequest) -> Iterator[Broker]:
        options = Options.of(request.config)
        options.require_own(f"the fixture {name} starts a broker of its own")
        pool = pool_of(request.config)
        started = pool.start(
            {**options.settings, **(settings or {})},
            profile=profile,
            security=security,
            users=users,
            acls=acls,
            **limit,
        )
        yield started
        pool.close(started)

    return fixture


def cluster(
    name: str,
    brokers: int = 3,
    settings: Mapping[str, object] | None = None,
    scope: Scope = "session",
    *,
    profile: str = "test",
    racks: Sequence[str] | None = None,
    security: str | None = None,
    users: Users | None = None,
    acls: Iterable[str] | None = None,
    start_timeout: float | None = None,
) -> Any:
    """A fixture of this name with a running `odradek.Cluster`, one for each `scope`.

    All parameters are as those of `odradek.Cluster`; `settings` come on top of those of the session. What a test has
    ended or isolated is there again for the next one: a whole cluster with nothing in it, at the same addresses.
    """
    _check(name, scope)
    require_profile(profile)
    limit = {} if start_timeout is None else {"start_timeout": require_seconds("start_timeout", start_timeout)}

    @pytest.fixture(scope=scope, name=name)
    def fixture(request: pytest.FixtureRequest) -> Iterator[Cluster]:
        options = Options.of(request.config)
        options.require_own(f"the fixture {name} starts brokers of its own")
        pool = pool_of(request.config)
        started = pool.start_cluster(
            brokers,
            {**options.settings, **(settings or {})},
            profile=profile,
            racks=racks,
            security=security,
            users=users,
            acls=acls,
            **limit,
        )
        yield started
        pool.close_cluster(started)

    return fixture


def clean(name: str, of: str) -> Callable[..., Any]:
    """A fixture of this name: the broker or cluster of the fixture `of`, cleaned after each test as `odradek` is."""
    _check(name, "function")

    @pytest.fixture(name=name)
    def fixture(request: pytest.FixtureRequest) -> Iterator[Controls]:
        with cleaned(request, request.getfixturevalue(of)) as controls:
            yield controls

    return fixture


def _check(name: str, scope: str) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"name = {name!r}: expected the name of the fixture, as it is written in tests")
    if scope not in SCOPES:
        raise ValueError(f"scope = {scope!r}: expected one of {', '.join(SCOPES)}")
