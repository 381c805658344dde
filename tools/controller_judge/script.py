"""A random life of a cluster of brokers that exist only as requests, told to two controllers step by step."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.alter_partition.v3 import request as alter
from kio.schema.alter_partition_reassignments.v1 import request as reassign
from kio.schema.assign_replicas_to_dirs.v0 import request as assign
from kio.schema.create_topics.v7 import request as create
from kio.schema.elect_leaders.v2 import request as elect
from kio.schema.incremental_alter_configs.v1 import request as configs
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

from tools.controller_judge.told import Told, directory

SECOND = timedelta(seconds=5)


def brokers_of(seed: int) -> tuple[int, ...]:
    """Each seed has brokers of its own: the dead ones of the seeds before it stay registered."""
    return tuple(range(1000 + 10 * seed, 1004 + 10 * seed))


def topics_of(seed: int) -> tuple[str, ...]:
    return (f"a-{seed}", f"b-{seed}")


class Script:
    """Makes one step after the other; each is done on every side, with what it says that can be compared."""

    def __init__(self, sides: list[Told], seed: int, session_s: float) -> None:
        self.sides = sides
        self.random = random.Random(seed)
        self.session_s = session_s
        self.brokers, self.topics = brokers_of(seed), topics_of(seed)
        self.incarnations = dict.fromkeys(self.brokers, 0)
        self.alive: set[int] = set()
        self.seed = seed
        self._lapsing: set[int] = set()

    def step(self) -> tuple[str, list[Any]]:
        """What was done, and what each side said."""
        steps: list[tuple[int, Callable[[], tuple[str, Callable[[Told], Any]]]]] = [
            (3, self._register),
            (6, self._heartbeat),
            (2, self._create),
            (10, self._alter_partition),
            (3, self._elect),
            (4, self._reassign),
            (1, self._configure),
            (1, self._unregister),
            (2, self._assign),
            (2, self._silence),
        ]
        (chosen,) = self.random.choices([step for _, step in steps], [weight for weight, _ in steps])
        text, ask = chosen()
        said = [ask(side) for side in self.sides]
        self._settle()
        return text, said

    def _settle(self) -> None:
        """Wait until brokers that send nothing any more are fenced on every side."""
        self._keep_alive()
        for side in self.sides:
            side.image = side.side.image()
        # Kafka keeps the session of a broker that may shut down; ours does not (controller/heartbeats.py).
        until = time.monotonic() + (1.3 * self.session_s if self._lapsing else 0)
        self._lapsing.clear()
        while time.monotonic() < until or any(self._are_dying(side) for side in self.sides):
            time.sleep(self.session_s / 10)
            self._keep_alive()
            for side in self.sides:
                side.image = side.side.image()

    def _are_dying(self, side: Told) -> bool:
        registered = [side.image.cluster.brokers.get(broker_id) for broker_id in self.brokers]
        return any(each is not None and not each.fenced and each.id not in self.alive for each in registered)

    def begin(self) -> None:
        """Brokers that are up, and topics."""
        for broker_id in self.brokers:
            for side in self.sides:
                side.register(broker_id, self._incarnation(broker_id, 1), -1)
                side.image = side.side.image()
            self.incarnations[broker_id] = 1
            self.alive.add(broker_id)
        self._keep_alive()
        for side in self.sides:
            side.image = side.side.image()

    # -- steps

    def _register(self) -> tuple[str, Callable[[Told], Any]]:
        broker_id = self.random.choice(self.brokers)
        new = self.random.random() < 0.8
        self.incarnations[broker_id] += new
        incarnation, clean = self.incarnations[broker_id], self.random.random() < 0.5
        directories = self.random.choice([1, 1, 2, 2, 0])

        def ask(side: Told) -> Any:
            previous = side.epochs.get(broker_id, -1) if clean else -1
            return side.register(broker_id, self._incarnation(broker_id, incarnation), previous, directories)

        text = f"register {broker_id} new={new} clean={clean} dirs={directories}"
        return text, lambda side: self._note_alive(broker_id, ask(side))

    def _note_alive(self, broker_id: int, code: str) -> str:
        if code == "none":
            self.alive.add(broker_id)
        else:
            self.incarnations[broker_id] += 1
        return code

    def _incarnation(self, broker_id: int, number: int) -> UUID:
        return UUID(int=(self.seed << 80) + (broker_id << 64) + number)

    def _heartbeat(self) -> tuple[str, Callable[[Told], Any]]:
        broker_id = self.random.choice(self.brokers)
        fence, shut_down = self.random.random() < 0.15, self.random.random() < 0.35
        caught_up, stale = self.random.random() < 0.8, self.random.random() < 0.1
        # With all directories offline a broker ends; and Kafka decides on state and directories with a record each.
        registered = self.sides[0].image.cluster.brokers.get(broker_id)
        may_fail = registered is not None and len(registered.directories) > 1 and not fence and not shut_down
        offline = self.random.choice([0, 0, 1]) if may_fail else 0
        text = f"heartbeat {broker_id} {fence=} {shut_down=} {caught_up=} {stale=} {offline=}"

        def ask(side: Told) -> Any:
            said = side.heartbeat(broker_id, fence, shut_down, caught_up, stale, offline)
            if said[-1]:
                self.alive.discard(broker_id)
                self._lapsing.add(broker_id)
            return said

        return text, ask

    def _keep_alive(self) -> None:
        for broker_id in sorted(self.alive):
            for side in self.sides:
                side.image = side.side.image()
                broker = side.image.cluster.brokers.get(broker_id)
                if broker is None or broker.epoch != side.epochs.get(broker_id):
                    continue
                side.heartbeat(
                    broker_id,
                    fence=False,
                    shut_down=False,
                    caught_up=not broker.fenced or self._may_rise(broker_id),
                )

    def _may_rise(self, broker_id: int) -> bool:
        """Half of the brokers only become unfenced by a step of their own."""
        return broker_id % 2 == 0 or self.incarnations[broker_id] <= 1

    def _create(self) -> tuple[str, Callable[[Told], Any]]:
        name = self.random.choice(self.topics)
        replicas = [self._replicas() for _ in range(self.random.randint(1, 2))]
        wanted = {
            "min.insync.replicas": self.random.choice(["1", "2", "3"]),
            "unclean.leader.election.enable": self.random.choice(["false", "false", "true"]),
        }
        request = create.CreateTopicsRequest(
            topics=(
                create.CreatableTopic(
                    name=name,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=tuple(
                        create.CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
                        for index, ids in enumerate(replicas)
                    ),
                    configs=tuple(create.CreatableTopicConfig(name=key, value=text) for key, text in wanted.items()),
                ),
            ),
            timeout=SECOND,
        )
        return f"create {name} {replicas} {wanted}", lambda side: side.side.ask(request).topics[0].error_code.name

    def _replicas(self, *, least: int = 1) -> tuple[int, ...]:
        return tuple(self.random.sample(self.brokers, self.random.randint(least, 3)))

    def _alter_partition(self) -> tuple[str, Callable[[Told], Any]]:
        name, index = self.random.choice(self.topics), self.random.choice([0, 0, 1])
        known = self.sides[0].partition(name, index)
        candidates = self.brokers if known is None or self.random.random() < 0.1 else known.replicas
        isr = set(self.random.sample(candidates, self.random.randint(0, len(candidates))))
        if self.random.random() < 0.7 and known is not None:
            isr = set(candidates) if self.random.random() < 0.6 else isr | {known.leader}
        ids = sorted(isr)
        off = {
            "leader_epoch": self.random.choice([0] * 12 + [-1, 1]),
            "partition_epoch": self.random.choice([0] * 12 + [-1, 1]),
            "broker_epoch": self.random.choice([0] * 15 + [1]),
            "isr_epoch": self.random.choice([0] * 10 + [1]),
        }
        recovery = self.random.choice([0] * 8 + [1])
        by = self.random.choice([None] * 10 + [self.brokers[0]])

        def ask(side: Told) -> Any:
            partition = side.partition(name, index)
            topic = side.image.topics.get(name)
            leader = self.brokers[0] if partition is None or partition.leader < 0 else partition.leader
            leader = leader if by is None else by
            data = alter.PartitionData(
                partition_index=index,
                leader_epoch=off["leader_epoch"] + (0 if partition is None else partition.leader_epoch),
                partition_epoch=off["partition_epoch"] + (0 if partition is None else partition.partition_epoch),
                new_isr_with_epochs=tuple(
                    alter.BrokerState(broker_id=node, broker_epoch=side.epochs.get(node, -1) + off["isr_epoch"])
                    for node in ids
                ),
                leader_recovery_state=recovery,
            )
            topic_id = UUID(int=5) if topic is None else topic.id
            request = alter.AlterPartitionRequest(
                broker_id=leader,
                broker_epoch=side.epochs.get(leader, -1) + off["broker_epoch"],
                topics=(alter.TopicData(topic_id=topic_id, partitions=(data,)),),
            )
            said = side.side.ask(request)
            if not said.topics:
                return said.error_code.name
            (told,) = said.topics[0].partitions
            return (
                told.error_code.name,
                told.leader_id,
                told.leader_epoch,
                told.isr,
                told.leader_recovery_state,
                told.partition_epoch,
            )

        return f"alter partition {name}-{index} {ids} {off} {recovery=} {by=}", ask

    def _elect(self) -> tuple[str, Callable[[Told], Any]]:
        kind = self.random.choice([0, 1])
        name, index = self.random.choice([*self.topics, "none"]), self.random.choice([0, 0, 1])
        wanted = elect.TopicPartitions(topic=name, partitions=(index,))
        request = elect.ElectLeadersRequest(election_type=kind, topic_partitions=(wanted,), timeout=SECOND)

        def ask(side: Told) -> Any:
            said = side.side.ask(request)
            return [one.error_code.name for each in said.replica_election_results for one in each.partition_result]

        return f"elect {kind=} {name}-{index}", ask

    def _reassign(self) -> tuple[str, Callable[[Told], Any]]:
        name, index = self.random.choice(self.topics), self.random.choice([0, 0, 1])
        replicas = None if self.random.random() < 0.3 else self._replicas()
        may_change = self.random.random() < 0.7
        wanted = reassign.ReassignableTopic(
            name=name, partitions=(reassign.ReassignablePartition(partition_index=index, replicas=replicas),)
        )
        request = reassign.AlterPartitionReassignmentsRequest(
            topics=(wanted,), timeout=SECOND, allow_replication_factor_change=may_change
        )

        def ask(side: Told) -> Any:
            said = side.side.ask(request)
            return said.error_code.name, [one.error_code.name for each in said.responses for one in each.partitions]

        return f"reassign {name}-{index} {replicas} {may_change=}", ask

    def _configure(self) -> tuple[str, Callable[[Told], Any]]:
        name = self.random.choice(self.topics)
        key, value = self.random.choice(
            [
                ("min.insync.replicas", "1"),
                ("min.insync.replicas", "2"),
                ("unclean.leader.election.enable", "true"),
                ("unclean.leader.election.enable", "false"),
            ]
        )
        resource = configs.AlterConfigsResource(
            resource_type=2,
            resource_name=name,
            configs=(configs.AlterableConfig(name=key, config_operation=0, value=value),),
        )
        request = configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        return f"configure {name} {key}={value}", lambda side: side.side.ask(request).responses[0].error_code.name

    def _unregister(self) -> tuple[str, Callable[[Told], Any]]:
        broker_id = self.random.choice(self.brokers)
        request = UnregisterBrokerRequest(broker_id=broker_id)

        def ask(side: Told) -> Any:
            self.alive.discard(broker_id)
            return side.side.ask(request).error_code.name

        return f"unregister {broker_id}", ask

    def _assign(self) -> tuple[str, Callable[[Told], Any]]:
        broker_id = self.random.choice(self.brokers)
        name, index = self.random.choice(self.topics), self.random.choice([0, 0, 1, 7])
        number = self.random.choice([0, 0, 1, 5])

        def ask(side: Told) -> Any:
            topic = side.image.topics.get(name)
            where = assign.DirectoryData(
                id_=directory(broker_id, number),
                topics=(
                    assign.TopicData(
                        topic_id=UUID(int=5) if topic is None else topic.id,
                        partitions=(assign.PartitionData(partition_index=index),),
                    ),
                ),
            )
            epoch = side.epochs.get(broker_id, -1)
            said = side.side.ask(
                assign.AssignReplicasToDirsRequest(broker_id=broker_id, broker_epoch=epoch, directories=(where,))
            )
            codes = [one.error_code.name for each in said.directories for t in each.topics for one in t.partitions]
            return said.error_code.name, codes

        return f"assign {broker_id} {name}-{index} to directory {number}", ask

    def _silence(self) -> tuple[str, Callable[[Told], Any]]:
        silent = self.random.sample(self.brokers, self.random.choice([1, 1, 2]))

        def ask(side: Told) -> Any:
            return None if side is not self.sides[0] else self._be_silent(silent)

        return f"silence {silent}", ask

    def _be_silent(self, silent: list[int]) -> None:
        """Heartbeats of all others, until the session of these is surely over."""
        self.alive -= set(silent)
        until = time.monotonic() + 1.8 * self.session_s
        while time.monotonic() < until:
            self._keep_alive()
            time.sleep(self.session_s / 10)
