"""`odradek groups` for share groups (`test_command_line_kafka.py`: streams groups too, and Kafka)."""

from __future__ import annotations

import pytest

from tests.brokers import sound_broker
from tests.client.group_commands import SHARE, TOPIC, share_transcript
from tests.command_line import Odradek


@pytest.mark.usefixtures("own_cluster")
def test_a_share_group_is_described_reset_and_deleted() -> None:
    with sound_broker() as broker:
        found = share_transcript(Odradek(broker.bootstrap_servers))
    members, refused, listed, unknown, planned, ended, moved_back, after, forgot, without, deleted, gone = found
    assert '"type": "share"' in members
    assert "NON_EMPTY_GROUP (only a group without members)\n-> 1" in refused
    assert listed.endswith(f"{SHARE}  share  Empty  share\n-> 0")
    assert f"{TOPIC} has no partition 7" in unknown and unknown.endswith("-> 2")
    assert planned.splitlines()[1:] == ended.splitlines()[1:], "a dry run shows what would be"
    assert ended.splitlines()[2].split() == [TOPIC, "0", "0", "3"]
    assert moved_back.splitlines()[2].split() == [TOPIC, "0", "3", "1"]
    assert after.splitlines()[3].split() == [TOPIC, "0", "1", "2"]
    assert forgot.endswith(f"offsets {TOPIC}: deleted\n-> 0") and TOPIC not in without.partition("\n")[2]
    assert deleted.endswith(f"group {SHARE}: deleted\n-> 0")
    assert "GROUP_ID_NOT_FOUND" in gone and gone.endswith("-> 1")
