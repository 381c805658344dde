"""The Helm chart, rendered by helm where it is installed: one broker, three under controllers, and what is refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from broker.config.sources import load

yaml: Any = pytest.importorskip("yaml", reason="requirements-pipeline.txt is not installed")

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "odradek"
VOTERS = "3000@controller-3000.controller:9093\\,3001@controller-3001.controller:9093"
CLUSTER = ("brokers=3", f"controllers.voters={VOTERS}", "controllers.clusterId=k2hLyQu2SZu2ZLwXKgnjPw")


def render(*values: str, file: Path | None = None) -> subprocess.CompletedProcess[str]:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("helm is not installed")
    command = [helm, "template", "mine", str(CHART), "--kube-version", "1.31.0"]
    if file is not None:
        command += ["--values", str(file)]
    for value in values:
        command += ["--set", value]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rendered(*values: str, file: Path | None = None) -> dict[str, dict[str, Any]]:
    """The documents by kind; of several of a kind the last."""
    done = render(*values, file=file)
    assert done.returncode == 0, done.stderr
    return {one["kind"]: one for one in yaml.safe_load_all(done.stdout)}


def environment(documents: dict[str, dict[str, Any]], ordinal: int) -> dict[str, str]:
    (container,) = documents["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    told = {"POD_NAME": f"mine-{ordinal}", "KAFKA_NODE_ID": str(ordinal)}
    found = {each["name"]: each.get("value", told.get(each["name"], "")) for each in container["env"]}
    return {name: value.replace("$(POD_NAME)", told["POD_NAME"]) for name, value in found.items()}


def test_one_broker() -> None:
    documents = rendered()
    spec = documents["StatefulSet"]["spec"]
    assert (spec["replicas"], spec["ordinals"]) == (1, {"start": 1})
    loaded = load([("image", (ROOT / "docker/image.properties").read_text())], environment(documents, 1))
    assert loaded.warnings == ()
    assert not loaded.config.is_in_cluster
    (listener,) = loaded.listeners.advertised
    assert (listener.host, listener.port) == ("mine-1.mine-brokers.default.svc", 9092)
    assert documents["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1


def test_three_brokers_of_a_cluster(tmp_path: Path) -> None:
    """Also large numbers, which Helm reads as floating-point numbers, are written as they were."""
    values = tmp_path / "values.yaml"
    values.write_text("settings: {log.segment.bytes: 1073741824, auto.create.topics.enable: false}")
    documents = rendered(*CLUSTER, file=values)
    mounted = documents["ConfigMap"]["data"]["server.properties"]
    loaded = load([("mounted", mounted)], environment(documents, 3))
    assert loaded.config.is_in_cluster
    assert loaded.config.integer("log.segment.bytes") == 1 << 30
    assert not loaded.config.boolean("auto.create.topics.enable")
    assert loaded.config.integer("default.replication.factor") == 3
    assert loaded.config.integer("min.insync.replicas") == 2
    assert loaded.config.node_id == 3


def test_brokers_run_read_only_and_without_capabilities() -> None:
    pod = rendered()["StatefulSet"]["spec"]["template"]["spec"]
    limits = pod["containers"][0]["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert limits["readOnlyRootFilesystem"] is True
    assert limits["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("values", [("brokers=3",), CLUSTER[:2]])
def test_a_cluster_without_controllers_or_an_id_is_refused(values: tuple[str, ...]) -> None:
    done = render(*values)
    assert done.returncode != 0
    assert "controllers." in done.stderr
