"""The pipeline on the newest supported Spark: the tests marked `every_spark`, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

ROOT = Path(__file__).parents[2]
OTHER = ROOT / "build" / "spark-4.1"


@pytest.mark.timeout(1200)  # a JVM of its own, and a score of tests in it
@pytest.mark.skipif(not (OTHER / ".done").exists(), reason="make build/spark-4.1/.done installs PySpark 4.1")
def test_the_pipeline_on_spark_4_1() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "every_spark", "-rs", "tests/pipeline"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        | {"PYTHONPATH": str(OTHER), "EXPECTED_SPARK": "4.1"},
        capture_output=True,
        text=True,
        timeout=1100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout, done.stdout
