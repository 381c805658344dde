"""Has Spark fetch the jars of these tests: `python -m tests.pipeline.fetch_jars`, before the tests run.

Two processes that fetch into Ivy's folder at the same time break each other's files, and the tests of one would skip.
"""

from __future__ import annotations

from odradek_pipeline import session
from tests.pipeline.conftest import PARTS, jars


def main() -> None:
    options = session.SessionOptions(app_name="fetch-jars", master="local[1]", parts=PARTS, packages=jars())
    session.build(options).stop()


if __name__ == "__main__":
    main()
