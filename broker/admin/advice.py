"""Advice for somebody who meets an error: shown by `odradek explain error` and on the page docs/errors.md."""

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
        errors.GroupNotEmpty: "Stop the members first, or `odradek groups describe NAME` shows who they are.",
        errors.GroupIdNotFound: "The name is another, or the group was of another kind.",
        errors.FetchSessionIdNotFound: "Clients begin a new session; nothing is to be done.",
        errors.FencedLeaderEpoch: "Clients ask for metadata and try again.",
        errors.MemberIdRequired: "Clients join again with the id that they were given; nothing is to be done.",
        errors.GroupMaxSizeReached: "See `group.max.size`, `group.consumer.max.size` and `group.share.max.size`.",
        errors.FencedInstanceId: "Two members have the same `group.instance.id`.",
        errors.InvalidRecord: "The message says which rule the record breaks; a compacted topic needs keys, for instance.",
        errors.UnstableOffsetCommit: "Clients try again: an open transaction has offsets of this group.",
        errors.ThrottlingQuotaExceeded: "A quota is used up: `odradek quotas list` shows them.",
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
        errors.InvalidFetchSize: "The client asks for a negative or too small number of bytes: see `fetch.max.bytes` and `max.partition.fetch.bytes`.",
        errors.BrokerNotAvailable: "`odradek cluster status` shows which brokers are there; the client's list of brokers may be old.",
        errors.ReplicaNotAvailable: "Clients try again. If it lasts: `odradek topics describe TOPIC` shows the replicas, and the log of their broker why.",
        errors.ControllerMoved: "Clients look for the controller and try again.",
        errors.OffsetMetadataTooLarge: "Commit less text with an offset, or raise `offset.metadata.max.bytes` of the broker.",
        errors.Network: "Clients try again. If it lasts: `odradek doctor` looks at the addresses, and the log says why connections end.",
        errors.InvalidRequiredAcks: "`acks` is 0, 1 or -1 (all).",
        errors.InvalidGroupId: "Set `group.id` to a text that is not empty; the group may also be of another kind than the client: `odradek groups list` shows it.",
        errors.InvalidCommitOffsetSize: "Commit fewer partitions at once, or less text with them; the batch must fit into `max.message.bytes` of `__consumer_offsets`.",
        errors.IllegalSaslState: "The client must log in before anything else: see its `security.protocol`, and which listener the port belongs to.",
        errors.TopicExists: "Nothing is to be done if the topic is as wanted: `odradek topics describe TOPIC` shows it.",
        errors.InvalidPartitions: "Ask for at least one partition, and for more than there are when partitions are added: they cannot be taken away.",
        errors.InvalidReplicaAssignment: "Name brokers that exist, each once, and as many for each partition: `odradek cluster status` shows their ids.",
        errors.InvalidConfiguration: "The message names the setting; `odradek explain setting NAME` says what it may be.",
        errors.NotController: "Clients look for the controller and try again.",
        errors.InvalidRequest: "The message, or the log of the broker, says what is wrong with it; as a rule a wrong use of a library, or a library for another protocol.",
        errors.UnsupportedForMessageFormat: "The log holds records in a format of before Kafka 0.11; use a newer client.",
        errors.DuplicateSequence: "Nothing is lost: the records were written before. Producers take it for success.",
        errors.InvalidPidMapping: "The producer id has expired (`transactional.id.expiration.ms`) or belongs to another producer: make the producer anew.",
        errors.TransactionCoordinatorFenced: "Nothing is to be done: the new coordinator writes the markers.",
        errors.SecurityDisabled: "Set `authorizer.class.name` of the broker, or there are no ACLs.",
        errors.OperationNotAttempted: "Mend what the same answer says of the other operations, and ask again.",
        errors.LogDirNotFound: "Name a folder of `log.dirs` of that broker, as an absolute path.",
        errors.UnknownProducerId: "The records were deleted, or the producer was idle for longer than `producer.id.expiration.ms`; clients go on with a new id.",
        errors.ReassignmentInProgress: "Wait until it is done (`odradek reassign list`), or end it with `odradek reassign cancel TOPIC`.",
        errors.DelegationTokenDisabled: "Set `delegation.token.secret.key` of all brokers and controllers.",
        errors.DelegationTokenNotFound: "It has expired or was taken back: make another.",
        errors.DelegationTokenOwnerMismatch: "The owner or a renewer of the token must ask, not somebody else.",
        errors.UnsupportedByAuthentication: "Log in with SASL or a certificate, and not with a token: a token makes no tokens.",
        errors.DelegationTokenAuthorization: "The principal needs a right on the token or the user (`odradek acls add`).",
        errors.DelegationTokenExpired: "Make another; `delegation.token.max.lifetime.ms` is the longest that one lives.",
        errors.InvalidPrincipalType: "Principals are `User:NAME`.",
        errors.InvalidFetchSessionEpoch: "Clients begin a new session; nothing is to be done.",
        errors.ListenerNotFound: "All brokers need a listener of the same name: see `listeners` and `advertised.listeners` of the leader.",
        errors.TopicDeletionDisabled: "Set `delete.topic.enable=true`.",
        errors.UnknownLeaderEpoch: "Clients try again: the broker will soon know of the new leader.",
        errors.UnsupportedCompressionType: "The client is too old for zstd: choose another `compression.type`, or a newer client.",
        errors.OffsetNotAvailable: "Clients try again: the new leader waits for its followers.",
        errors.PreferredLeaderNotAvailable: "Start the first broker of the partition's replicas (`odradek topics describe TOPIC`).",
        errors.EligibleLeadersNotAvailable: "Start a broker that was in sync; an unclean election would lose records.",
        errors.ElectionNotNeeded: "Nothing is to be done: the partition has the leader that was asked for.",
        errors.NoReassignmentInProgress: "Nothing is to be done: there is none to end (`odradek reassign list`).",
        errors.GroupSubscribedToTopic: "Stop the members that subscribe to the topic first (`odradek groups describe NAME`).",
        errors.ResourceNotFound: "The name is another: `odradek users list` and `odradek topics list` show what there is.",
        errors.DuplicateResource: "Name each thing once in a request.",
        errors.UnacceptableCredential: "The message says why: iterations of SCRAM are 4096 to 16384, and a user needs a name (`odradek users add --help`).",
        errors.InvalidUpdateVersion: "The message says which level the feature may have; kafka-features (`describe`) shows it.",
        errors.FeatureUpdateFailed: "Look in the log of the controller for the reason.",
        errors.BrokerIdNotRegistered: "There is no broker of this id: `odradek cluster status` shows them.",
        errors.InconsistentTopicId: "The topic was deleted and made anew: clients ask for metadata.",
        errors.TransactionalIdNotFound: "The name is another, or the id has expired: `odradek transactions list` shows them.",
        errors.FetchSessionTopicId: "Clients begin a new session; nothing is to be done.",
        errors.NewLeaderElected: "Clients ask for metadata and try again.",
        errors.OffsetMovedToTieredStorage: "Followers get this, and begin behind what is in remote storage; nothing is to be done.",
        errors.UnsupportedAssignor: "See `group.consumer.assignors` of the broker and `group.remote.assignor` of the consumer.",
        errors.MismatchedEndpointType: "Use `--bootstrap-server` for brokers, and `--bootstrap-controller` for controllers alone.",
        errors.UnsupportedEndpointType: "The client asks for a kind of node that this release does not know: use one of the broker's release.",
        errors.UnknownControllerId: "There is no controller of this id: kafka-metadata-quorum (`describe`) shows them.",
        errors.UnknownSubscriptionId: "Clients ask for their subscription and push again; nothing is to be done.",
        errors.TelemetryTooLarge: "Raise `telemetry.max.bytes` of the broker, or subscribe to fewer metrics.",
        errors.InvalidShareSessionEpoch: "Clients begin a new session; nothing is to be done.",
        errors.FencedStateEpoch: "Clients try again: the share partition has moved to another leader.",
        errors.InvalidVoterKey: "The directory id is another than that of the node: kafka-metadata-quorum (`describe`) shows it.",
        errors.DuplicateVoter: "Nothing is to be done: the controller is a voter.",
        errors.VoterNotFound: "The controller is no voter: kafka-metadata-quorum (`describe`) shows them.",
        errors.InvalidRegularExpression: "Mend the pattern: the broker takes RE2, which has no look-around and no back references.",
        errors.StreamsInvalidTopologyEpoch: "Start all instances of the application in one version.",
        errors.StreamsTopologyFenced: "Another instance runs a newer version of the application: start this one in that version.",
        errors.ShareSessionLimitReached: "Close consumers of share groups, or raise `group.share.max.share.sessions` of the broker.",
    }
)
# fmt: on
"""By error; all but those that brokers and controllers tell each other."""

BETWEEN_NODES: frozenset[type[KafkaError]] = frozenset(
    {
        errors.DuplicateBrokerRegistration,
        errors.InconsistentVoterSet,
        errors.IneligibleReplica,
        errors.InvalidRegistration,
        errors.PositionOutOfRange,
        errors.PrincipalDeserialization,
        errors.SnapshotNotFound,
        errors.StaleBrokerEpoch,
    }
)
"""Errors that brokers and controllers tell each other, and no client gets."""


def advice_for(kind: type[KafkaError]) -> str:
    """Say what to do about an error; empty for NONE."""
    if kind in BETWEEN_NODES:
        return (
            "Only brokers and controllers tell each other so: the log of the node that was told it says what follows."
        )
    return ADVICE.get(kind, "")
