"""A report and an explanation as texts, for kits that cannot write them themselves."""

from __future__ import annotations

import pytest

from broker.testkit.control.endpoint import ControlError
from tests.unit.broker.members import CONFIG, ClassicMember
from tests.unit.broker.rig import Rig
from tests.unit.broker.testkit.control.asking import control, keep_journal
from tests.unit.broker.wire import batch, produce


async def test_a_report_is_a_text_with_topics_groups_and_requests() -> None:
    async with Rig(config=CONFIG) as rig:
        keep_journal(rig)
        await rig.create("t", 1)
        await ClassicMember(rig, "g", "t").enter({"t": [0]})
        mark = (await control(rig, "GET", "/journal", limit=0))["mark"]
        await rig.connect().ask("produce", 9, **produce("t", {0: batch(b"one")}))
        answer = await control(rig, "GET", "/report", text=True, since=mark)
        assert list(answer) == ["text"]
        assert answer["text"].startswith("topics (first offset..end):\n  t: 0: 0..1\ngroups:\n  g: ")
        assert "Produce v9" in answer["text"]
        assert "JoinGroup" not in answer["text"]  # it was before the mark
        assert "topics" in await control(rig, "GET", "/report", text=False)


async def test_an_explanation_is_a_text() -> None:
    async with Rig(config=CONFIG) as rig:
        answer = await control(rig, "GET", "/explain", group="nobody", text=True)
        assert answer["text"].startswith("group nobody\n")
        assert "findings" in await control(rig, "GET", "/explain", group="nobody")
        with pytest.raises(ControlError, match="expected one of them"):
            await control(rig, "GET", "/explain", text=True)
