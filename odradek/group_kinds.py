"""What share groups (KIP-932, Kafka's queues) and streams groups (KIP-1071) have besides what all groups have.

A share group delivers: records are acquired by a member until a lock ends, come again, and after too many deliveries
are given up, perhaps as dead letters. A streams group has tasks. `Group` is all of it: a test names a group before
anybody has joined it, and then it is of no kind yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from odradek.control import ControlError, Described
from odradek.record import Record
from odradek.topic import DEFAULT_TIMEOUT, Topic

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group.

    Attributes:
        id: the member id, which the broker (or a newer client) made up.
        assignment: the partitions it has, by topic.
        topics: what it subscribes to; None if the broker cannot know.
        waits_for: "JoinGroup" or "SyncGroup" while it waits for the answer to one.
        session_ends_in: seconds until its session ends if it sends nothing more; None while it waits for an answer.
    """

    id: str
    client_id: str
    host: str
    instance_id: str | None
    protocol: str
    leader: bool
    topics: list[str] | None
    assignment: dict[str, list[int]]
    waits_for: str | None
    session_ends_in: float | None

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions it has, as (topic, partition)."""
        return [(topic, index) for topic, indexes in self.assignment.items() for index in indexes]


DeliveryState = Literal["AVAILABLE", "ACQUIRED", "ACKNOWLEDGED", "ARCHIVING", "ARCHIVED"]


@dataclass(frozen=True, slots=True)
class Delivery:
    """Neighbouring records that a share group has in flight in one state; both offsets are inclusive.

    Attributes:
        delivery_count: how often they were acquired.
        member: who has acquired them, None unless the state is ACQUIRED.
        lock_ends_in: seconds until their acquisition lock ends, None unless the state is ACQUIRED.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    state: DeliveryState
    delivery_count: int
    member: str | None
    lock_ends_in: float | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that a share group has given up, as its dead letter queue has it (KIP-1191).

    Attributes:
        topic: where the record was, as `partition` and `offset`.
        delivery_count: how often it was acquired.
        reason: Kafka's sentence: its consumer has rejected it, or it was delivered too often.
        record: the record of the queue. It has key and value if the group copies them.
    """

    topic: str
    partition: int
    offset: int
    group: str
    delivery_count: int
    reason: str
    record: Record

    @classmethod
    def of(cls, record: Record) -> DeadLetter | None:
        """Read a record of a queue; None if it is no dead letter."""
        told = {name: (content or b"").decode() for name, content in record.headers if name.startswith(LETTER)}
        try:
            return cls(
                told[f"{LETTER}topic"],
                int(told[f"{LETTER}partition"]),
                int(told[f"{LETTER}offset"]),
                told[f"{LETTER}group"],
                int(told[f"{LETTER}delivery.count"]),
                told[f"{LETTER}message"],
                record,
            )
        except (KeyError, ValueError):
            return None


LETTER = "__dlq.errors."
"""How the names of a dead letter's headers begin."""

QUEUE = "errors.deadletterqueue.topic.name"
COPIES = "errors.deadletterqueue.copy.record.enable"
ALLOWS = "errors.deadletterqueue.group.enable"


class ShareGroup(Described):
    """What a share group has of its own."""

    _KIND = "groups"
    _PARAMETER = "group"

    def share_sessions(self) -> list[str]:
        """The ids of the members that have a share session, which begins with a member's first fetch."""
        found: list[str] = self._control().get(f"{self._path}/deliveries")["share_sessions"]
        return found

    def deliveries(self) -> list[Delivery]:
        """List what a share group has in flight, by partition and offset: who has acquired what, how often, until when.

        Raises ControlError if it is no share group.
        """
        found = self._control().get(f"{self._path}/deliveries")["partitions"]
        return [
            Delivery(topic=each["topic"], partition=each["partition"], **delivery)
            for each in found
            for delivery in each["in_flight"]
        ]

    def release(
        self,
        member: str | Member | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
    ) -> int:
        """Release acquired records, as their consumer can; return how many.

        Those of a member (by member id or client id), of a topic, of one of its partitions, or one record; all without
        any of them. The next delivery counts one more; at share.delivery.count.limit they are given up.
        """
        return self._end("release", member, topic, partition, offset)

    def expire_locks(
        self,
        member: str | Member | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
    ) -> int:
        """End acquisition locks now, as if share.record.lock.duration.ms had passed; return how many records it were.

        Which, is said as in `release`.
        """
        return self._end("expire_locks", member, topic, partition, offset)

    def _end(
        self, what: str, member: str | Member | None, topic: str | None, partition: int | None, offset: int | None
    ) -> int:
        name = member.id if isinstance(member, Member) else member
        found: int = self._control().post(
            f"{self._path}/{what}", member=name, topic=topic, partition=partition, offset=offset
        )["released"]
        return found

    # -- dead letters

    def dead_letter_queue(self, topic: str, *, partitions: int | None = None, copy: bool = True) -> Topic:
        """Make a topic, unless it exists, and have the group write there what it gives up; return the topic.

        With `copy` each letter has the record's key and value. The name begins with
        errors.deadletterqueue.topic.name.prefix of the broker, "dlq." if nobody has set it.
        """
        control = self._control()
        made = control.post("/topics", topic=topic, partitions=partitions, configs={ALLOWS: True})
        configs = {QUEUE: topic, COPIES: str(copy).lower()}
        control.post(f"{self._path}/configs", configs=configs)
        return Topic(self._control, topic, made["partitions"])

    def dead_letters(self, count: int = 0, *, timeout: float = DEFAULT_TIMEOUT) -> list[DeadLetter]:
        """List what the group has given up, as its dead letter queue has it; wait until it is `count` letters.

        `timeout` is in seconds; then WaitTimeoutError says what is there. Raises ControlError if there is no queue.
        """
        configs: dict[str, Any] = self._control().get(f"{self._path}/configs")["configs"]
        queue = configs.get(QUEUE)
        if not queue:
            raise ControlError(
                f'group {self.id} has no dead letter queue: group.dead_letter_queue("dlq.{self.id}") makes one',
                status=409,
            )
        topic = Topic(self._control, queue, 0)
        records = topic.wait(count, self._is_letter, timeout) if count else topic.records()
        letters = [letter for record in records if (letter := DeadLetter.of(record)) is not None]
        return [letter for letter in letters if letter.group == self.id]

    def _is_letter(self, record: Record) -> bool:
        letter = DeadLetter.of(record)
        return letter is not None and letter.group == self.id


Role = Literal["active", "standby", "warm-up"]


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a streams group and who has it.

    Attributes:
        id: subtopology and partition, as 0_1.
        member: the member id.
        offset: how far its state is, the sum over its changelogs; None if the member has not said it.
        end: where its changelogs end; None if the member has not said it.
    """

    id: str
    role: Role
    member: str
    offset: int | None
    end: int | None


class StreamsGroup(Described):
    """What a streams group has of its own."""

    _KIND = "groups"
    _PARAMETER = "group"

    def tasks(self) -> list[Task]:
        """List the tasks that members have, by id. Raises ControlError if it is no streams group."""
        found = self._control().get(f"{self._path}/tasks")["tasks"]
        return [Task(each["task"], each["role"], each["member"], each["offset"], each["end"]) for each in found]

    @property
    def problem(self) -> str | None:
        """Why a streams group assigns no tasks, with Kafka's status; None if it does.

        As "MISSING_SOURCE_TOPICS: ...". Raises ControlError if it is no streams group.
        """
        found: str | None = self._control().get(f"{self._path}/tasks")["problem"]
        return found
