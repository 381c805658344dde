"""anyio's own plugin."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_wait_in_a_task_group(odradek_topic: Any) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(odradek_topic.wait_async)
        await anyio.to_thread.run_sync(lambda: odradek_topic.produce("x"))
