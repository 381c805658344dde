"""The brokers of one test run: started when first needed, cleaned after each test, and replaced when they die."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from odradek.cluster.cluster import Cluster
from odradek.controls import Controls
from odradek.process import Broker
from odradek.pytest.options import Options
from odradek.topic import Topic

MOST_KEPT = 3
"""So many brokers with settings of their own (`@pytest.mark.odradek(settings=...)`) are kept for other tests."""

Settings = Mapping[str, object]


class SharedBroker(Broker):
    """A broker of the plugin. A test that closes it ends it, and the next test has a new one."""

    def close(self) -> None:
        if self.running:
            self.stop()

    def close_for_good(self) -> None:
        """Stop the broker for good, and remove its folder."""
        super().close()


class SharedCluster(Cluster):
    """A cluster of the plugin. A test that closes it ends it, and the next test has a new one."""

    def close(self) -> None:
        self.kill()

    def close_for_good(self) -> None:
        """Stop the cluster for good, and remove its folders."""
        super().close()


class Pool:
    """All running brokers that fixtures started. `close_all` ends them.

    `options` of brokers and clusters are the parameters of `Broker` and `Cluster`; `defaults` are those of fixtures
    that say nothing else.
    """

    def __init__(self, defaults: Mapping[str, Any] | None = None) -> None:
        self._defaults: dict[str, Any] = dict(defaults or {})
        self._brokers: list[SharedBroker] = []
        self._clusters: list[SharedCluster] = []
        self._kept: dict[str, SharedBroker] = {}
        self._reported: set[int] = set()
        self._unclean: set[int] = set()
        self._cluster: tuple[str, SharedCluster] | None = None

    def start(self, settings: Settings, **options: Any) -> SharedBroker:
        """A new broker."""
        broker = SharedBroker(settings, **{**self._defaults, **options})
        with contextlib.ExitStack() as undo:
            undo.callback(broker.close_for_good)
            broker.start()
            undo.pop_all()
        self._brokers.append(broker)
        return broker

    def start_cluster(self, brokers: int, settings: Settings, **options: Any) -> SharedCluster:
        """A new cluster."""
        cluster = SharedCluster(brokers, settings, **{**self._defaults, **options})
        with contextlib.ExitStack() as undo:
            undo.callback(cluster.close_for_good)
            cluster.start()
            undo.pop_all()
        self._clusters.append(cluster)
        return cluster

    def like(self, settings: Settings, **options: Any) -> SharedBroker:
        """A broker with exactly these settings and options: one that an earlier test used, or a new one."""
        key = _key(settings, options)
        broker = self._kept.pop(key, None) or self.start(settings, **options)
        self._kept[key] = broker  # the last one used is the last one given up
        if len(self._kept) > MOST_KEPT:
            self.close(self._kept.pop(next(iter(self._kept))))
        return broker

    def close(self, broker: SharedBroker) -> None:
        """End a broker for good."""
        self._brokers = [other for other in self._brokers if other is not broker]
        broker.close_for_good()

    def cluster(self, brokers: int, settings: Settings, **options: Any) -> SharedCluster:
        """The one cluster of `odradek_cluster`: whole, with these settings and options, of an earlier test or new."""
        key = _key(settings, {**options, "brokers": brokers})
        if self._cluster is not None and self._cluster[0] == key:
            self._renew_cluster(self._cluster[1])
            return self._cluster[1]
        if self._cluster is not None:
            self.close_cluster(self._cluster[1])
            self._cluster = None
        self._cluster = key, self.start_cluster(brokers, settings, **options)
        return self._cluster[1]

    def close_cluster(self, cluster: SharedCluster) -> None:
        """End a cluster for good."""
        self._clusters = [other for other in self._clusters if other is not cluster]
        cluster.close_for_good()

    def close_all(self) -> None:
        for cluster in tuple(self._clusters):
            self.close_cluster(cluster)
        for broker in tuple(self._brokers):
            self.close(broker)

    # -- deaths

    def renew(self) -> None:
        """Give each that is not running, or that could not be cleaned, a new life: empty, at its address."""
        for broker in self._brokers:
            if not broker.running or id(broker) in self._unclean:
                self._reported.discard(id(broker))
                self._unclean.discard(id(broker))
                broker.start_anew()
        for cluster in self._clusters:
            if self._cluster is None or cluster is not self._cluster[1]:  # that one waits until somebody wants it
                self._renew_cluster(cluster)

    def _renew_cluster(self, cluster: SharedCluster) -> None:
        if not cluster.whole or id(cluster) in self._unclean:
            self._reported -= {id(node) for node in (*cluster.brokers, cluster.controller)}
            self._unclean.discard(id(cluster))
            cluster.start_anew()

    def note_unclean(self, broker: object) -> None:
        """Note that something which a test left in this broker could not be removed."""
        self._unclean.add(id(broker))

    def words_of_the_dead(self) -> str:
        """How the brokers ended that died since this was asked last, and their logs' ends; empty if none did."""
        clustered = [node for cluster in self._clusters for node in (*cluster.brokers, cluster.controller)]
        dead = [broker for broker in (*self._brokers, *clustered) if broker.died and id(broker) not in self._reported]
        self._reported.update(map(id, dead))
        return "\n".join(broker.last_words() for broker in dead)


def _key(settings: Settings, options: Mapping[str, Any]) -> str:
    """The same for brokers that do not differ."""
    lists = {name: list(value) if isinstance(value, set | tuple) else value for name, value in options.items()}
    return json.dumps([{name: str(value) for name, value in settings.items()}, lists], sort_keys=True, default=str)


POOL = pytest.StashKey[Pool]()


def pool_of(config: pytest.Config) -> Pool:
    """The brokers of this test run."""
    if POOL not in config.stash:
        config.stash[POOL] = Pool(Options.of(config).of_start())
    return config.stash[POOL]


MADE = pytest.StashKey[list[Topic]]()


@contextlib.contextmanager
def cleaned(request: pytest.FixtureRequest, controls: Controls) -> Iterator[Controls]:
    """Delete what the test makes: topics, groups, transactional ids; remove its faults, and reset the clock.

    Of a broker that other processes of the run use only the topics are deleted that fixtures made.
    """
    if Options.of(request.config).shared:
        yield controls
        for topic in made_by(request.node):
            topic.delete()
        return
    mark = controls.mark()
    yield controls
    if not _is_whole(controls):
        pool_of(request.config).note_unclean(controls)
        return  # the test failed for it, or ended it, or is about to; the next one gets a new one
    try:
        controls.reset(mark)
    except BaseException:
        pool_of(request.config).note_unclean(controls)
        raise


def _is_whole(controls: Controls) -> bool:
    if isinstance(controls, Cluster):
        return controls.whole
    return not isinstance(controls, Broker) or (controls.running and not controls.may_end)


def made_by(node: pytest.Item) -> list[Topic]:
    """The topics that fixtures made for a test."""
    return node.stash.setdefault(MADE, [])
