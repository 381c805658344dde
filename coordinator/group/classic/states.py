"""The five states of a classic group, what each request gets in each of them, and the transitions between them."""

from __future__ import annotations

from enum import Enum


class GroupState(Enum):
    """States of a classic group (Kafka's `ClassicGroupState`); the value is the name on the wire and in logs.

    The answer to a request of a known member with the group's generation:

    ============== =================== ======================= ======================== ============================
    request        Empty               PreparingRebalance      CompletingRebalance      Stable
    ============== =================== ======================= ======================== ============================
    JoinGroup, new starts a rebalance  waits for the rest      starts a rebalance       starts a rebalance
    JoinGroup,     UNKNOWN_MEMBER_ID   waits for the rest      the present generation   leader: starts a rebalance;
    again                                                      at once; with other      follower: the present
                                                               protocols: a rebalance   generation at once; with
                                                                                        other protocols: a rebalance
    JoinGroup,     starts a rebalance  takes the old member's  takes the old member's   takes the old member's
    static, with                       place; waits            place; a rebalance       place; a rebalance only if
    no member id                                                                        the protocol changes
    SyncGroup      UNKNOWN_MEMBER_ID   REBALANCE_IN_PROGRESS   waits for the leader's   its assignment at once
                                                               assignment
    Heartbeat      UNKNOWN_MEMBER_ID   REBALANCE_IN_PROGRESS   accepted                 accepted
    LeaveGroup     UNKNOWN_MEMBER_ID   removed; may complete   removed; a rebalance     removed; a rebalance
                                       the join phase
    OffsetCommit   accepted without a  accepted                REBALANCE_IN_PROGRESS    accepted
                   generation, or
                   UNKNOWN_MEMBER_ID
    session ends   nobody there        removed; may complete   removed; a rebalance     removed; a rebalance
                                       the join phase
    restart        Empty               the last record's state the last record's state  Stable, new sessions
    ============== =================== ======================= ======================== ============================

    A Dead group has been deleted: a request finds no group of that name, and is answered UNKNOWN_MEMBER_ID, except a
    JoinGroup without a member id, which creates a new group.

    In PreparingRebalance and CompletingRebalance a member waiting for an answer is alive, whatever its session, but a
    new member's first JoinGroup waits five minutes at most. The join phase ends when all members have joined, or at the
    rebalance timeout without the dynamic members that did not; if members do not sync within another rebalance timeout,
    they are removed. A group that loses its last member goes through PreparingRebalance to Empty.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


LEGAL_PREDECESSORS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}
