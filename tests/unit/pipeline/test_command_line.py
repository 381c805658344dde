"""The command line without Spark, and what it says of a machine that lacks something."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click import ClickException
from click.testing import CliRunner

from odradek_pipeline import session
from odradek_pipeline.cli import main


def test_the_help_needs_no_spark() -> None:
    look = "print('pyspark' in sys.modules)"
    program = f"import sys; from odradek_pipeline.cli import main; main(['--help'], standalone_mode=False); {look}"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize(
    ("told", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_292"', 8),
        ("no such thing", 0),
    ],
)
def test_javas_version_is_read(told: str, major: int) -> None:
    assert session.java_major(told) == major


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        (["lake", "--lake", "/nowhere", "--topic", "t"], "tqdm"),
        (["replay", "--source", "/nowhere", "--topic", "t", "--job", "j"], "confluent_kafka"),
    ],
)
def test_missing_packages_are_one_clear_line(command: list[str], missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)  # what Python takes for a module that is not there
    told = CliRunner().invoke(main, [*command, "--bootstrap", "nowhere:1"])
    assert told.exit_code == session.NotInstalled.exit_code
    assert re.search(rf"Error: Python has no .*{missing}: pip install ./pipeline", told.output)


def test_no_java_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(session.NotInstalled, match=r"^Spark needs Java and there is none: install Java 17 .*\Z"):
        session.check_java()


def test_an_old_java_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(session.NotInstalled, match=r"is Java 11: install Java 17"):
        session.check_java()


def test_the_connector_has_sparks_version() -> None:
    assert session.coordinates((session.KAFKA, session.ICEBERG), "4.1.3") == (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.10.0",
    )


def test_local_masters_have_no_ui_and_clusters_keep_theirs() -> None:
    options = session.SessionOptions(conf={"spark.sql.shuffle.partitions": "7"})
    assert session.settings(options, "local[2]", "4.0.0")["spark.ui.enabled"] == "false"
    assert "spark.ui.enabled" not in session.settings(options, "spark://host:7077", "4.0.0")
    assert session.settings(options, "local[2]", "4.0.0")["spark.sql.shuffle.partitions"] == "7"


def test_a_jvm_that_is_gone_is_one_clear_line() -> None:
    errors = pytest.importorskip("py4j.protocol", reason="requirements-pipeline.txt is not installed")

    class Gone:
        def stop(self) -> None:
            raise errors.Py4JNetworkError("Answer from Java side is empty")

    for error in (None, errors.Py4JNetworkError(), ConnectionRefusedError()):
        with pytest.raises(ClickException, match="Spark's JVM has ended"), session.running(Gone()):  # type: ignore[arg-type]
            if error is not None:
                raise error
    with pytest.raises(ValueError, match="ours"), session.running(Gone()):  # type: ignore[arg-type]
        raise ValueError("ours")
