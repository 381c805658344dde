"""Has Spark fetch the jars of these tests: `python -m tests.pipeline.fetch_jars`, before the tests run.

Two processes that fetch into Ivy's folder at the same time break each other's files, and the tests of one would skip.
"""

from __future__ import annotations

from odradek_pipeline import session


def main() -> None:
    parts = (session.KAFKA, session.DELTA, session.ICEBERG, session.AVRO)
    session.build(session.SessionOptions(app_name="fetch-jars", master="local[1]", parts=parts)).stop()


if __name__ == "__main__":
    main()
