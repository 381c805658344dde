"""What goes to a cluster: the archive for spark-submit, and the compose file with a master and workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from odradek import Broker
from odradek_pipeline import package, session

ROOT = Path(__file__).parents[2]


def test_the_archive_holds_every_command(tmp_path: Path) -> None:
    archive, script = package.write(tmp_path)
    told = subprocess.run(
        [sys.executable, str(script), "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PYTHONPATH": str(archive)},
        cwd=tmp_path,
    )
    assert {"lake", "package"} <= {line.split()[0] for line in told.stdout.splitlines() if line.startswith("  ")}
    where = subprocess.run(
        [
            sys.executable,
            "-c",
            "import odradek_pipeline as o, odradek_pipeline.lake.job, odradek_pipeline.protocol as p;"
            "print(o.__file__, p.__file__)",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PYTHONPATH": str(archive)},
        cwd=tmp_path,
    )
    assert all(path.startswith(str(archive)) for path in where.stdout.split())


def test_the_same_code_makes_the_same_archive(tmp_path: Path) -> None:
    first, _ = package.write(tmp_path / "a")
    second, _ = package.write(tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()


def test_a_cluster_keeps_its_own_settings() -> None:
    options = session.SessionOptions(parts=(session.KAFKA, session.DELTA), packages=())
    told = session.settings(options, None, "4.0.0")
    assert "spark.jars.packages" not in told, "the cluster has the jars"
    assert "spark.driver.bindAddress" not in told
    assert told["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        (["lake", "--lake", "/nowhere", "--topic", "t"], "org.apache.spark.sql.kafka010.KafkaSourceProvider"),
        pytest.param(
            ["replay", "--source", "/nowhere", "--topic", "t", "--job", "j"],
            "io.delta.sql.DeltaSparkSessionExtension",
            marks=pytest.mark.torture,
        ),
    ],
)
def test_jars_that_are_missing_are_one_clear_line(
    command: list[str], missing: str, broker: Broker, tmp_path: Path
) -> None:
    try:
        session.check_packages("pyspark", "tqdm", "confluent_kafka")
        session.check_java()
    except session.NotInstalled as error:
        pytest.skip(error.message)
    given = [*command, "--bootstrap", broker.bootstrap_servers, "--packages", "", "--master", "local[1]"]
    program = [sys.executable, "-m", "odradek_pipeline", *given]
    told = subprocess.run(program, capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path)
    assert told.returncode == 3
    assert f"Error: Spark has no jar with {missing}: it needs --packages " in told.stderr
    assert "most recent call last" not in told.stderr


def test_the_compose_file_fits_together() -> None:
    yaml = pytest.importorskip("yaml", reason="requirements-pipeline.txt is not installed")
    compose: dict[str, Any] = yaml.safe_load((ROOT / "docker" / "spark-compose.yaml").read_text())
    services = compose["services"]
    assert set(services) == {"broker", "master", "worker", "lake"}
    for name, service in services.items():
        build = service["build"]
        context = (ROOT / "docker" / build["context"]).resolve()
        assert (context / build["dockerfile"]).is_file(), name
        assert set(service.get("depends_on", ())) <= set(services)
        mounted = {volume.partition(":")[0] for volume in service["volumes"]}
        assert mounted <= set(compose["volumes"])
    command = services["lake"]["command"]
    assert command[:2] == ["odradek-pipeline", "lake"]
    from odradek_pipeline.commands.lake import command as lake

    given = lake.make_context("lake", command[2:]).params
    assert (given["master"], given["bootstrap"], given["path"]) == ("spark://master:7077", "broker:19092", "/lake")
    listeners = services["broker"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert f"INTERNAL://{given['bootstrap']}" in listeners
    assert services["worker"]["command"][-1] == given["master"]
