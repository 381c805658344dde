"""The examples of docs/pipeline.md run as they are printed, but for folders and addresses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from odradek import Broker
from tests.pages import blocks
from tests.pipeline.lakes import create_topic, produce

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")


def test_the_data_source_example_runs_as_a_program_of_its_own(broker: Broker, tmp_path: Path) -> None:
    for topic in ("orders", "clicks", "shop.carts"):
        create_topic(broker.bootstrap_servers, topic)
        produce(broker.bootstrap_servers, topic, [b"hello"])
    code, _with_a_tier = blocks("docs/pipeline.md", "python")  # test_datasource_tier.py runs the other one
    folder = str(broker.data_dir)
    code = code.replace("/var/lib/odradek", folder).replace("/disk1,/disk2", folder)
    program = tmp_path / "ds.py"
    program.write_text(code + "print(stream.isStreaming)\n")
    ours = {key: value for key, value in os.environ.items() if key != "PYSPARK_PYTHON"}
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
        env=ours | {"SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("68 65 6C 6C 6F") == 2, "two topics with a record each"
    assert "True" in done.stdout
