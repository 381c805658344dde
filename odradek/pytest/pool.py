"""The brokers of one test run: started when first needed, watched, and replaced when they die."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

import pytest

from odradek.cluster.cluster import Cluster
from odradek.process import Broker
from odradek.security import Users

MOST_KEPT = 3
"""So many brokers with settings of their own (`@pytest.mark.odradek(settings=...)`) are kept for other tests."""

Settings = Mapping[str, object]


class SharedBroker(Broker):
    """A broker of the plugin. A test that closes it ends it, and the next test has a new one."""

    def close(self) -> None:
        if self.running:
            self.stop()

    def close_for_good(self) -> None:
        """What `close` is for a broker of one's own."""
        super().close()


class Pool:
    """All running brokers that fixtures started. `close_all` ends them."""

    def __init__(self) -> None:
        self._brokers: list[SharedBroker] = []
        self._kept: dict[tuple[tuple[str, str], ...], SharedBroker] = {}
        self._told: set[int] = set()
        self._unclean: set[int] = set()
        self._cluster: tuple[dict[str, str], Cluster] | None = None

    def start(
        self,
        settings: Settings,
        profile: str = "test",
        security: str | None = None,
        users: Users | None = None,
        acls: Iterable[str] | None = None,
    ) -> SharedBroker:
        """A new broker."""
        broker = SharedBroker(settings, profile=profile, security=security, users=users, acls=acls)
        try:
            broker.start()
        except BaseException:
            broker.close_for_good()
            raise
        self._brokers.append(broker)
        return broker

    def with_settings(self, settings: Settings) -> SharedBroker:
        """A broker with exactly these settings: one that an earlier test used, or a new one."""
        key = tuple(sorted((name, str(value)) for name, value in settings.items()))
        broker = self._kept.pop(key, None) or self.start(settings)
        self._kept[key] = broker  # the last one used is the last one given up
        if len(self._kept) > MOST_KEPT:
            self.close(self._kept.pop(next(iter(self._kept))))
        return broker

    def close(self, broker: SharedBroker) -> None:
        """End a broker for good."""
        self._brokers = [one for one in self._brokers if one is not broker]
        broker.close_for_good()

    def cluster(self, settings: Settings) -> Cluster:
        """A whole cluster with exactly these settings: the one of an earlier test, or a new one in its place."""
        wanted = {name: str(value) for name, value in settings.items()}
        if self._cluster is not None and self._cluster[0] == wanted and self._is_whole(self._cluster[1]):
            return self._cluster[1]
        self._close_cluster()
        cluster = Cluster(settings=settings)
        with contextlib.ExitStack() as undo:
            undo.callback(cluster.close)
            cluster.start()
            undo.pop_all()
        self._cluster = wanted, cluster
        return cluster

    def _is_whole(self, cluster: Cluster) -> bool:
        return cluster.whole and id(cluster) not in self._unclean

    def _close_cluster(self) -> None:
        if self._cluster is not None:
            self._unclean.discard(id(self._cluster[1]))
            self._cluster[1].close()
        self._cluster = None

    def close_all(self) -> None:
        self._close_cluster()
        for broker in tuple(self._brokers):
            self.close(broker)

    # -- deaths

    def renew(self) -> None:
        """Give each broker that is not running, or that could not be cleaned, a new life: empty, at its address."""
        for broker in self._brokers:
            if not broker.running or id(broker) in self._unclean:
                self._told.discard(id(broker))
                self._unclean.discard(id(broker))
                broker.start_anew()

    def note_unclean(self, broker: object) -> None:
        """What a test left in this broker could not be removed."""
        self._unclean.add(id(broker))

    def words_of_the_dead(self) -> str:
        """How the brokers ended that died since this was asked last, and their logs' ends; empty if none did."""
        clustered = [] if self._cluster is None else [*self._cluster[1].brokers, self._cluster[1].controller]
        dead = [broker for broker in (*self._brokers, *clustered) if broker.died and id(broker) not in self._told]
        self._told.update(map(id, dead))
        return "\n".join(broker.last_words() for broker in dead)


POOL = pytest.StashKey[Pool]()


def pool_of(config: pytest.Config) -> Pool:
    """The brokers of this test run."""
    if POOL not in config.stash:
        config.stash[POOL] = Pool()
    return config.stash[POOL]
