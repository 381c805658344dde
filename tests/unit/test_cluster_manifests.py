"""The compose file and the Kubernetes manifests of a cluster: their parts fit together, and the brokers take them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.config.controllers import controllers, inter_broker_listener
from broker.config.sources import Loaded, load

kubernetes_validate: Any = pytest.importorskip("kubernetes_validate", reason="requirements-dev.txt is not installed")
yaml: Any = pytest.importorskip("yaml", reason="requirements-dev.txt is not installed")

DOCKER = Path(__file__).parent.parent.parent / "docker"
IMAGE = [("image.properties", (DOCKER / "image.properties").read_text())]
BROKERS = {1, 2, 3}
VOTERS = {3000, 3001, 3002}


def compose() -> Iterator[tuple[str, dict[str, str]]]:
    """The containers by host name, with their environments."""
    services: dict[str, Any] = yaml.safe_load((DOCKER / "cluster-compose.yaml").read_text())["services"]
    for name, service in services.items():
        yield name, {key: str(value) for key, value in service["environment"].items()}


def kubernetes() -> Iterator[tuple[str, dict[str, str]]]:
    documents = kubernetes_documents()
    shared = next(one["data"] for one in documents if one["kind"] == "ConfigMap")
    services = {one["metadata"]["name"]: one["spec"] for one in documents if one["kind"] == "Service"}
    for one in documents:
        if one["kind"] != "StatefulSet":
            continue
        spec, template = one["spec"], one["spec"]["template"]
        service = services[spec["serviceName"]]
        assert service["clusterIP"] == "None"
        assert service["selector"] == template["metadata"]["labels"] == spec["selector"]["matchLabels"]
        (container,) = template["spec"]["containers"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
        for index in range(spec["replicas"]):
            ordinal = spec["ordinals"]["start"] + index
            pod = f"{one['metadata']['name']}-{ordinal}"
            labels = {
                "metadata.name": pod,
                "metadata.labels['apps.kubernetes.io/pod-index']": str(ordinal),
                "metadata.labels['topology.kubernetes.io/zone']": f"zone-{ordinal}",
            }
            given = {
                each["name"]: each["value"] if "value" in each else labels[each["valueFrom"]["fieldRef"]["fieldPath"]]
                for each in container["env"]
            }
            filled = {key: value.replace("$(POD_NAME)", given.get("POD_NAME", "")) for key, value in given.items()}
            yield f"{pod}.{spec['serviceName']}", shared | filled


FORMS = pytest.mark.parametrize("containers", [compose, kubernetes])


def loaded(environment: dict[str, str]) -> Loaded:
    return load(IMAGE, environment)


@FORMS
def test_every_broker_finds_the_controllers_where_they_listen(containers: Any) -> None:
    by_role: dict[str, dict[str, dict[str, str]]] = {"broker": {}, "controller": {}}
    for host, environment in containers():
        by_role[environment["KAFKA_PROCESS_ROLES"]][host] = environment
    assert {int(one["KAFKA_NODE_ID"]) for one in by_role["broker"].values()} == BROKERS
    voters = {}
    for host, environment in by_role["controller"].items():
        (port,) = re.findall(r"^CONTROLLER://:(\d+)$", environment["KAFKA_LISTENERS"])
        voters[int(environment["KAFKA_NODE_ID"])] = f"{host}:{port}"
    assert voters.keys() == VOTERS
    for environment in by_role["broker"].values():
        found = controllers(loaded(environment).config)
        assert {one.node_id: str(one) for one in found} == voters
    assert len({one["CLUSTER_ID"] for role in by_role.values() for one in role.values()}) == 1


@FORMS
def test_every_broker_is_one_of_a_cluster_and_is_reached_at_its_own_name(containers: Any) -> None:
    for host, environment in containers():
        if environment["KAFKA_PROCESS_ROLES"] != "broker":
            continue
        found = loaded(environment)
        config = found.config
        assert found.warnings == ()
        assert config.is_in_cluster
        assert config.optional_string("broker.rack")
        assert config.string("odradek.cluster.id") == environment["CLUSTER_ID"]
        between = {one.name: one for one in found.listeners.advertised}[inter_broker_listener(config)]
        assert f"{between.host}:{between.port}" == f"{host}:9092"
        assert [config.integer(key) for key in REPLICAS] == [3, 3, 3, 2, 2]
        assert config.integer("group.initial.rebalance.delay.ms") == 3000  # Kafka's, not a laptop's


REPLICAS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "min.insync.replicas",
)


@FORMS
def test_each_broker_has_a_rack_of_its_own(containers: Any) -> None:
    brokers = [environment for _, environment in containers() if environment["KAFKA_PROCESS_ROLES"] == "broker"]
    assert len({environment["KAFKA_BROKER_RACK"] for environment in brokers}) == len(BROKERS)


def kubernetes_documents() -> list[Any]:
    return list(yaml.safe_load_all((DOCKER / "kubernetes.yaml").read_text()))


@pytest.mark.parametrize("version", ["1.31", "1.35", "1.37"])
def test_kubernetes_knows_every_field(version: str) -> None:
    for document in kubernetes_documents():
        kubernetes_validate.validate(document, version, strict=True)


def test_containers_of_kubernetes_have_every_probe_and_images_a_version() -> None:
    pods = [one["spec"]["template"]["spec"] for one in kubernetes_documents() if one["kind"] == "StatefulSet"]
    for container in (container for pod in pods for container in pod["containers"]):
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
        name, _, tag = container["image"].partition(":")
        assert name == "apache/kafka" or f'version = "{tag}"' in (DOCKER.parent / "pyproject.toml").read_text()
        assert tag


COMPOSE = pytest.mark.parametrize("file", ["compose.yaml", "cluster-compose.yaml", "spark-compose.yaml"])


@COMPOSE
def test_no_port_of_compose_is_open_to_other_machines(file: str) -> None:
    services = yaml.safe_load((DOCKER / file).read_text())["services"]
    ports = [port for one in services.values() for port in one.get("ports", ())]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


@COMPOSE
def test_brokers_of_compose_run_read_only_and_without_capabilities(file: str) -> None:
    services = yaml.safe_load((DOCKER / file).read_text())["services"]
    brokers = [one for one in services.values() if one.get("image") == "odradek"]
    assert brokers
    for broker in brokers:
        assert broker["read_only"] is True
        assert broker["cap_drop"] == ["ALL"]
        assert broker["security_opt"] == ["no-new-privileges:true"]
        (volume,) = broker["volumes"]
        assert volume.endswith(":/var/lib/odradek")


def test_brokers_of_kubernetes_run_read_only_and_without_capabilities() -> None:
    pods = [one["spec"]["template"]["spec"] for one in kubernetes_documents() if one["kind"] == "StatefulSet"]
    brokers = [(pod, container) for pod in pods for container in pod["containers"] if container["name"] == "odradek"]
    assert brokers
    for pod, container in brokers:
        assert pod["securityContext"]["runAsNonRoot"] is True
        limits = container["securityContext"]
        assert limits["readOnlyRootFilesystem"] is True
        assert limits["allowPrivilegeEscalation"] is False
        assert limits["capabilities"] == {"drop": ["ALL"]}


def test_pods_of_kubernetes_have_no_token_for_its_api() -> None:
    pods = [one["spec"]["template"]["spec"] for one in kubernetes_documents() if one["kind"] == "StatefulSet"]
    assert [pod["automountServiceAccountToken"] for pod in pods] == [False, False]


def test_files_of_the_container_are_for_its_user_and_group_alone(tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    shutil.copy(DOCKER / "serve.sh", script)
    (tmp_path / "bin").mkdir()
    broker = tmp_path / "bin" / "odradek"
    broker.write_text("#!/bin/sh\numask\n")
    broker.chmod(0o755)
    told = subprocess.run([script], capture_output=True, text=True, timeout=30, check=True).stdout
    assert int(told, 8) == 0o007


def test_the_image_runs_as_a_user_with_a_number_that_is_not_root() -> None:
    assert "\nUSER 10001\n" in (DOCKER / "Dockerfile").read_text()


def test_the_image_says_what_it_is() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    for label in ("title", "description", "licenses", "version"):
        assert f"org.opencontainers.image.{label}=" in text
