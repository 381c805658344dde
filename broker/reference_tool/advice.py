"""What somebody who meets an error may do: shown by `odradek explain error` and on the page docs/errors.md."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from protocol import errors
from protocol.errors import KafkaError

# One line per error, however long.
# ruff: noqa: E501
# fmt: off
ADVICE: Mapping[type[KafkaError], str] = MappingProxyType(
    {
        errors.UnknownServerError: "Look in the broker's log: a traceback there is a bug, and worth a report.",
        errors.OffsetOutOfRange: (
            "The records were deleted by retention, or the offset was never reached: see `auto.offset.reset` of the "
            "consumer and `retention.ms` of the topic."
        ),
        errors.CorruptMessage: "Something between client and broker changed the bytes, or the client's library is wrong.",
        errors.UnknownTopicOrPartition: (
            "Create the topic, or wait: clients that ask just after its creation get this once. "
            "`auto.create.topics.enable=false` makes no topic by itself."
        ),
        errors.LeaderNotAvailable: "Clients try again. If it lasts: `odradek cluster status` shows brokers that are gone.",
        errors.NotLeaderOrFollower: "Clients ask for metadata and try again; it lasts as long as an election.",
        errors.Timeout: "With acks=all a replica was too slow; see under-replicated partitions and the disks.",
        errors.MessageTooLarge: "Raise `max.message.bytes` of the topic, or send smaller batches (`max.request.size`).",
        errors.RecordBatchTooLarge: "Raise `segment.bytes` of the topic, or send smaller batches.",
        errors.CoordinatorLoadInProgress: "Clients try again; a large `__consumer_offsets` takes seconds to load.",
        errors.CoordinatorNotAvailable: (
            "Clients try again. If it lasts, the internal topic cannot be made: "
            "`offsets.topic.replication.factor` is above the number of brokers."
        ),
        errors.NotCoordinator: "Clients look for the coordinator again; it has moved to another broker.",
        errors.InvalidTopic: "Names have letters, digits, `.`, `_` and `-`, at most 249; internal topics take no records.",
        errors.NotEnoughReplicas: "Brokers are down, or replicas lag: fewer are in sync than `min.insync.replicas`.",
        errors.NotEnoughReplicasAfterAppend: "As NOT_ENOUGH_REPLICAS; a retry of a producer without idempotence may double.",
        errors.IllegalGeneration: "The member was removed, as a rule for too long a pause: see `max.poll.interval.ms`.",
        errors.InconsistentGroupProtocol: "All members need one assignor in common, and one protocol type.",
        errors.UnknownMemberId: "The member's session ended; it joins anew. Often: long pauses, see `session.timeout.ms`.",
        errors.InvalidSessionTimeout: (
            "Choose one between `group.min.session.timeout.ms` and `group.max.session.timeout.ms` of the broker."
        ),
        errors.RebalanceInProgress: "Clients join again. If a group never rests, `odradek groups describe NAME` shows its members.",
        errors.TopicAuthorization: "`odradek acls add` gives the right; the log names the principal and the operation.",
        errors.GroupAuthorization: "The principal needs READ on the group (`odradek acls add`).",
        errors.ClusterAuthorization: "The principal needs a right on the cluster, for instance CREATE (`odradek acls add`).",
        errors.TransactionalIdAuthorization: "The principal needs WRITE on the transactional id (`odradek acls add`).",
        errors.InvalidTimestamp: "See `message.timestamp.before.max.ms` and `.after.max.ms` of the topic, and the clocks.",
        errors.UnsupportedSaslMechanism: "See `sasl.enabled.mechanisms` of the listener.",
        errors.SaslAuthentication: "The user or the password is wrong, or the token has expired; it is not told which.",
        errors.UnsupportedVersion: "The client is newer or older than this API's versions, or the feature is off.",
        errors.InvalidReplicationFactor: "There are fewer brokers than replicas wanted; one node can have 1.",
        errors.PolicyViolation: "A limit of the broker: the message names it.",
        errors.OutOfOrderSequence: "Records of an idempotent producer are missing; it has to be made anew.",
        errors.InvalidProducerEpoch: "Another producer with the transactional id has begun: only one may be alive.",
        errors.ProducerFenced: "Another producer with the transactional id has begun: only one may be alive.",
        errors.InvalidTxnState: "The producer must abort and begin anew: `odradek transactions describe ID` shows the state.",
        errors.InvalidTxnTimeout: "Raise `transaction.max.timeout.ms` of the broker, or lower the producer's timeout.",
        errors.ConcurrentTransactions: "Clients try again, until the markers of the last transaction are written.",
        errors.KafkaStorage: "A disk fails or is full: the log of the broker names the folder (docs/operations.md).",
        errors.GroupNotEmpty: "Stop the members first, or `odradek groups describe` shows who they are.",
        errors.GroupIdNotFound: "The name is another, or the group was of another kind.",
        errors.FetchSessionIdNotFound: "Clients begin a new session; nothing is to be done.",
        errors.FencedLeaderEpoch: "Clients ask for metadata and try again.",
        errors.MemberIdRequired: "Clients join again with the id that they were given; nothing is to be done.",
        errors.GroupMaxSizeReached: "See `group.max.size`, `group.consumer.max.size` and `group.share.max.size`.",
        errors.FencedInstanceId: "Two members have the same `group.instance.id`.",
        errors.InvalidRecord: "The message says which rule the record breaks; a compacted topic needs keys, for instance.",
        errors.UnstableOffsetCommit: "Clients try again: an open transaction has offsets of this group.",
        errors.ThrottlingQuotaExceeded: "A quota is used up: `odradek quotas` shows them.",
        errors.UnknownTopicId: "The topic was deleted, and perhaps made anew: clients ask for metadata.",
        errors.InconsistentClusterId: "The folder, or the client, belongs to another cluster.",
        errors.FencedMemberEpoch: "The member lost its place, as a rule for too long a pause; it joins anew.",
        errors.UnreleasedInstanceId: "The former member with this `group.instance.id` is still there: stop it.",
        errors.StaleMemberEpoch: "Clients commit again after their next heartbeat.",
        errors.TransactionAbortable: "Abort the transaction and begin it again.",
        errors.InvalidRecordState: "The lock had expired, or another member has the record: it will come again.",
        errors.ShareSessionNotFound: "Clients begin a new session; nothing is to be done.",
        errors.RebootstrapRequired: "The address leads to another cluster than it did.",
        errors.StreamsInvalidTopology: "The message says what of the topology is wrong.",
    }
)
# fmt: on
"""By error; those that only brokers send to each other, and those that say all themselves, are not here."""
