"""The kit's base classes for unittest: a shared broker, clean for each test, and a report of a test that fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("own_cluster")

SUITE = """
import unittest

from odradek.unittest import BrokerTestCase, IsolatedAsyncioBrokerTestCase


class Orders(BrokerTestCase):
    def setUp(self):
        self.topic = self.odradek.topic("orders")

    def test_1_an_order_is_stored(self):
        self.topic.produce({"id": 7}, key="7")
        self.assertEqual(self.topic.expect({"id": 7}).key, "7")
        print("PID", self.odradek.pid)

    def test_2_nothing_is_left(self):
        self.assertEqual(self.topic.records(), [])
        print("PID", self.odradek.pid)

    def test_3_fails(self):
        self.topic.produce("order 7")
        self.topic.expect("order 8", timeout=0)

    def test_4_ends_the_broker(self):
        self.topic.produce("gone")
        self.odradek.kill()

    def test_5_a_new_one_is_empty(self):
        self.assertEqual(self.topic.records(), [])

    def test_6_is_skipped(self):
        self.skipTest("why not")

    def test_7_dies_and_fails(self):
        self.odradek.kill()
        self.topic.records()


class Later(IsolatedAsyncioBrokerTestCase):
    odradek_settings = {"num.partitions": 3}

    async def test_8_others_settings(self):
        topic = self.odradek.topic("orders")
        self.assertEqual(topic.partitions, 3)
        await topic.expect_async("never", timeout=0)


class NoBroker(BrokerTestCase):
    def test_9_starts_none(self):
        pass
"""


def test_a_suite_of_unittest(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(SUITE)
    root = str(Path(__file__).parents[2])
    run = subprocess.run(
        [sys.executable, "-m", "unittest", "-v", "test_orders"],
        cwd=tmp_path,
        env={"PYTHONPATH": root, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    output = run.stdout + run.stderr
    assert "Ran 9 tests" in output, output
    assert "FAILED (failures=2, errors=1, skipped=1)" in output, output
    assert len({line for line in run.stdout.splitlines() if line.startswith("PID")}) == 1, output
    failed = output.partition("FAIL: test_3_fails")[2].partition("=====")[0]
    assert "orders: 0: 0..1" in failed
    assert 'expected "order 8", is "order 7"' in failed
    died = output.partition("ERROR: test_7_dies_and_fails")[2]
    assert "died, killed or stopped; its log ends with" in died
    assert "topics (first offset..end)" in output.partition("FAIL: test_8_others_settings")[2]
