"""The command line without Spark, and what it says of a machine that lacks something."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click import ClickException
from click.testing import CliRunner
from packaging.specifiers import SpecifierSet

from odradek_pipeline import session
from odradek_pipeline.cli import main

ROOT = Path(__file__).parents[3]


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


def test_each_minor_version_of_spark_has_its_jars() -> None:
    assert session.coordinates((session.KAFKA, session.DELTA, session.ICEBERG), "4.1.3") == (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
        "io.delta:delta-spark_4.1_2.13:4.1.0",
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
    )
    assert session.coordinates((session.DELTA,), "4.0.5") == ("io.delta:delta-spark_2.13:4.0.0",)
    table = (ROOT / "docs" / "pipeline.md").read_text()
    for minor, jars in session.JARS.items():
        assert f"| {minor} | `{jars[session.KAFKA]}` | `{jars[session.DELTA]}` | `{jars[session.ICEBERG]}` |" in table


def test_what_pip_takes_is_a_supported_pyspark() -> None:
    """Without an upper bound pip took a version for which there are no jars."""
    project = tomllib.loads((ROOT / "pipeline" / "pyproject.toml").read_text())["project"]
    (bound,) = [one for one in project["dependencies"] if one.startswith("pyspark")]
    assert bound == session.PYSPARK
    allowed = SpecifierSet(bound.removeprefix("pyspark"))
    for minor in session.JARS:
        assert f"{minor}.0" in allowed
        assert f"{minor}.99" in allowed
    assert not [
        f"{major}.{minor}.0"
        for major in (3, 4, 5)
        for minor in range(10)
        if f"{major}.{minor}" not in session.JARS and f"{major}.{minor}.0" in allowed
    ]


@pytest.mark.parametrize("version", ["3.5.9", "4.2.0", "4.3.0", "5.0.0.dev1"])
def test_another_spark_is_one_clear_line_before_jars_are_fetched(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")
    monkeypatch.setattr(pyspark, "__version__", version)
    monkeypatch.setattr(session, "check_java", lambda: pytest.fail("Spark was about to start"))
    with pytest.raises(session.NotInstalled, match=rf"^PySpark {version} is not supported, only 4.0 and 4.1 are: pip"):
        session.build(session.SessionOptions(parts=(session.KAFKA,)))


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
