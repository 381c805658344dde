"""How soon a group is served again after a restart: `python -m benchmarks.coordinator_load --help`.

One group has committed 1,000 offsets again and again, and nothing has been compacted yet. Measured are the time from
the open port until the group's offsets are answered, and the longest wait of another request meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import struct
import sys
import time

from benchmarks.by_hand import Asker, frame, text
from benchmarks.contenders import Contender, arguments, contenders, serving
from benchmarks.groups import coordinated
from benchmarks.many_partitions import end
from benchmarks.measures import Topic

OFFSET_COMMIT, OFFSET_FETCH, API_VERSIONS = 8, 9, 18
GROUP = "committer"
OFFSETS = 1000
NO_ERROR = b"\0\0"


def main() -> None:
    options = _options()
    for contender in contenders(options.kafka, options.alone):
        with serving(contender), Topic(f"127.0.0.1:{contender.port}", partitions=OFFSETS) as topic:
            asyncio.run(fill(contender.port, topic, options.commits))
            end(contender.pid(), signal.SIGTERM)
            contender.start()
            told(contender, *asyncio.run(until_served(contender.port, topic)))


def told(contender: Contender, seconds: float, longest: float) -> None:
    sys.stdout.write(f"{contender.name}: served after {seconds:.1f} s, longest wait {longest * 1000:.0f} ms\n")
    sys.stdout.flush()


async def fill(port: int, topic: str, commits: int) -> None:
    await coordinated(port, GROUP)
    asker = await connected(port)
    for number in range(commits):
        head = text(GROUP) + struct.pack(">i", -1) + text("") + struct.pack(">qi", -1, 1) + text(topic)
        offsets = b"".join(struct.pack(">iq", index, number) + text("metadata") for index in range(OFFSETS))
        commit = frame(OFFSET_COMMIT, 2, head, struct.pack(">i", OFFSETS), offsets)
        await accepted(asker, commit)
    asker.transport.close()


async def accepted(asker: Asker, request: bytes) -> None:
    """Send the request until the coordinator, which may be new, accepts it."""
    for _ in range(100):
        if (await asker.ask(request)).endswith(NO_ERROR):
            return
        await asyncio.sleep(0.1)
    raise RuntimeError("refused")


async def until_served(port: int, topic: str) -> tuple[float, float]:
    """Seconds from the open port until an offset is answered, and the longest time of an ApiVersions meanwhile."""
    asker = await connected(port)
    began = time.perf_counter()
    longest = 0.0
    fetch = frame(OFFSET_FETCH, 1, text(GROUP), struct.pack(">i", 1), text(topic), struct.pack(">ii", 1, 0))
    while not (await asker.ask(fetch)).endswith(text("metadata") + NO_ERROR):
        asked = time.perf_counter()
        await asker.ask(frame(API_VERSIONS, 0))
        longest = max(longest, time.perf_counter() - asked)
        await asyncio.sleep(0.01)
    asker.transport.close()
    return time.perf_counter() - began, longest


async def connected(port: int) -> Asker:
    """Connect as soon as the port is open."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return (await loop.create_connection(Asker, "127.0.0.1", port))[1]
        except ConnectionRefusedError:
            await asyncio.sleep(0.01)


def _options() -> argparse.Namespace:
    parser = arguments("python -m benchmarks.coordinator_load", __doc__)
    parser.add_argument("--commits", type=int, default=1000, help="times that each of the 1,000 offsets is committed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
