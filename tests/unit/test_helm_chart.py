"""The Helm chart, rendered by helm: by the schemas of Kubernetes, by what brokers make of it, and what is refused."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from broker.config.controllers import inter_broker_listener
from broker.config.sources import Loaded, load

kubernetes_validate: Any = pytest.importorskip("kubernetes_validate", reason="requirements-dev.txt is not installed")
yaml: Any = pytest.importorskip("yaml", reason="requirements-dev.txt is not installed")

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "odradek"
OLDEST, NEWEST = "1.31", "1.37"
VOTERS = "3000@controller-3000.controller:9093,3001@controller-3001.controller:9093"
CLUSTER = {"brokers": 3, "controllers": {"voters": VOTERS, "clusterId": "k2hLyQu2SZu2ZLwXKgnjPw"}}
OF_OTHERS = {"ServiceMonitor"}
"""Kinds of operators, for which Kubernetes has no schema."""
IMAGE = ("image.properties", (ROOT / "docker/image.properties").read_text())
Documents = dict[tuple[str, str], Any]


def helm() -> str:
    """Where tests/client/install-tools.sh puts it, else on the path."""
    found = shutil.which("helm", path=f"{ROOT}/build/tools:{os.environ['PATH']}")
    if found is None:
        pytest.skip("helm is not installed: tests/client/install-tools.sh does it, with Go")
    return found


def render(values: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "values.yaml").write_text(json.dumps(values))
    file = str(folder / "values.yaml")
    command = [helm(), "template", "mine", str(CHART), "--kube-version", OLDEST, "--values", file]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rendered(values: dict[str, Any], folder: Path) -> Documents:
    """The documents by kind and name, of which Kubernetes' schemas know every field."""
    done = render(values, folder)
    assert done.returncode == 0, done.stderr
    documents = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(done.stdout) if one}
    for (kind, _), document in documents.items():
        for version in () if kind in OF_OTHERS else (OLDEST, NEWEST):
            kubernetes_validate.validate(document, version, strict=True)
    return documents


def pod(documents: Documents) -> Any:
    return documents["StatefulSet", "mine"]["spec"]["template"]["spec"]


def container(documents: Documents) -> Any:
    return pod(documents)["containers"][0]


def broker(documents: Documents, ordinal: int, **environ: str) -> Loaded:
    """What the broker with that ordinal makes of its file and its environment, as docker/serve.sh has it read them."""
    template = container(documents)
    (mount,) = [one for one in template["volumeMounts"] if one["name"] == "config"]
    assert mount["mountPath"] == "/mnt/shared/config/server.properties"
    name = mount["subPathExpr"].replace("$(POD_NAME)", f"mine-{ordinal}")
    given = {one["name"]: one["value"] for one in template["env"] if "value" in one}
    return load([IMAGE, ("mounted", documents["ConfigMap", "mine"]["data"][name])], given | environ)


def addresses(loaded: Loaded) -> list[str]:
    return [str(listener) for listener in loaded.listeners.advertised]


def ports(document: Any) -> dict[str, int]:
    return {one["name"]: one["port"] for one in document["spec"]["ports"]}


def test_one_broker(tmp_path: Path) -> None:
    documents = rendered({}, tmp_path)
    spec = documents["StatefulSet", "mine"]["spec"]
    assert (spec["replicas"], spec["ordinals"]) == (1, {"start": 1})
    loaded = broker(documents, 1)
    assert loaded.warnings == ()
    assert not loaded.config.is_in_cluster
    assert addresses(loaded) == ["PLAINTEXT://mine-1.mine-brokers.default.svc:9092"]
    assert loaded.config.string("odradek.profile") == "kafka"
    assert documents["PodDisruptionBudget", "mine"]["spec"]["maxUnavailable"] == 1
    assert {kind for kind, _ in documents} == {"StatefulSet", "ConfigMap", "Service", "PodDisruptionBudget"}


def test_three_brokers_of_a_cluster(tmp_path: Path) -> None:
    """Also large numbers, which Helm reads as floating-point numbers, are written as they were."""
    settings = {"log.segment.bytes": 1 << 30, "auto.create.topics.enable": False, "super.users": "User:a\\b;User:c"}
    documents = rendered(CLUSTER | {"settings": settings}, tmp_path)
    loaded = broker(documents, 3)
    assert loaded.config.is_in_cluster
    assert loaded.config.integer("log.segment.bytes") == 1 << 30
    assert not loaded.config.boolean("auto.create.topics.enable")
    assert loaded.config.string("super.users") == "User:a\\b;User:c"
    assert loaded.config.integer("default.replication.factor") == 3
    assert loaded.config.integer("min.insync.replicas") == 2
    assert loaded.config.node_id == 3
    assert inter_broker_listener(loaded.config) == "PLAINTEXT"
    assert len(documents["ConfigMap", "mine"]["data"]) == 3


def test_the_zone_of_a_node_is_the_rack_where_pods_have_its_label(tmp_path: Path) -> None:
    documents = rendered({}, tmp_path)
    (rack,) = [one for one in container(documents)["env"] if one["name"] == "KAFKA_BROKER_RACK"]
    assert rack["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['topology.kubernetes.io/zone']"
    assert broker(documents, 1, KAFKA_BROKER_RACK="a").config.string("broker.rack") == "a"
    assert broker(documents, 1, KAFKA_BROKER_RACK="").config.optional_string("broker.rack") is None
    for values in ({"rackIsZone": False}, {"settings": {"broker.rack": "b"}}):
        assert [one["name"] for one in container(rendered(values, tmp_path))["env"]] == ["POD_NAME"]


SECURE: dict[str, Any] = {
    "listeners": [
        {"name": "INTERNAL", "port": 9091, "protocol": "SSL"},
        {"name": "SASL_SSL", "port": 9092, "protocol": "SASL_SSL"},
    ],
    "tls": {"existingSecret": "certificate", "clientAuth": "required"},
    "sasl": {"existingSecret": "accounts", "mechanisms": ["SCRAM-SHA-512"]},
}


@pytest.mark.long
def test_listeners_with_tls_and_sasl_out_of_secrets(tmp_path: Path) -> None:
    documents = rendered(SECURE, tmp_path)
    loaded = broker(documents, 1)
    assert loaded.warnings == ()
    host = "mine-1.mine-brokers.default.svc"
    assert addresses(loaded) == [f"INTERNAL://{host}:9091", f"SASL_SSL://{host}:9092"]
    assert [one.protocol for one in loaded.listeners.bound] == ["SSL", "SASL_SSL"]
    given = loaded.config.given
    assert given["ssl.keystore.type"] == given["ssl.truststore.type"] == "PEM"
    assert given["ssl.keystore.location"] == "/etc/odradek/tls"
    assert given["ssl.truststore.location"] == "/etc/odradek/tls/ca.crt"
    assert given["ssl.client.auth"] == "required"
    assert given["odradek.users.file"] == "/etc/odradek/users/users"
    assert given["sasl.enabled.mechanisms"] == "SCRAM-SHA-512"
    secrets = {one["name"]: one["secret"] for one in pod(documents)["volumes"] if "secret" in one}
    assert {name: one["secretName"] for name, one in secrets.items()} == {"tls": "certificate", "users": "accounts"}
    assert {one["defaultMode"] for one in secrets.values()} == {0o440}
    mounts = {one["name"]: one["mountPath"] for one in container(documents)["volumeMounts"]}
    assert (mounts["tls"], mounts["users"]) == ("/etc/odradek/tls", "/etc/odradek/users")
    assert ports(documents["Service", "mine"]) == {"internal": 9091, "sasl-ssl": 9092}


def test_the_values_of_the_documentation(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n# values.yaml(.*?)```", (ROOT / "docs/operations.md").read_text(), re.DOTALL)
    loaded = broker(rendered(yaml.safe_load("#" + text), tmp_path), 2)
    assert loaded.config.is_in_cluster
    assert addresses(loaded)[2] == "EXTERNAL://b2.kafka.example:9094"
    assert [one.protocol for one in loaded.listeners.bound] == ["SSL", "SASL_SSL", "SASL_SSL"]


def test_pkcs12_stores_with_a_password(tmp_path: Path) -> None:
    tls = {"existingSecret": "stores", "type": "PKCS12", "keystore": "keystore.p12", "truststore": "truststore.p12"}
    documents = rendered(SECURE | {"tls": tls | {"passwordKey": "password", "clientAuth": "required"}}, tmp_path)
    given = broker(documents, 1).config.given
    assert given["ssl.keystore.location"] == "/etc/odradek/tls/keystore.p12"
    assert given["ssl.truststore.location"] == "/etc/odradek/tls/truststore.p12"
    of_secrets = {one["name"]: one["valueFrom"]["secretKeyRef"] for one in container(documents)["env"][2:]}
    names = ("KAFKA_SSL_KEYSTORE_PASSWORD", "KAFKA_SSL_KEY_PASSWORD", "KAFKA_SSL_TRUSTSTORE_PASSWORD")
    assert of_secrets == {name: {"name": "stores", "key": "password"} for name in names}


def test_nodes_with_tls_trust_the_authority_of_the_secret(tmp_path: Path) -> None:
    """Without such nodes and clients' certificates there may be no ca.crt."""
    nobody = SECURE | {"tls": {"existingSecret": "certificate"}}
    assert "ssl.truststore.location" not in broker(rendered(nobody, tmp_path), 1).config.given
    among_brokers = nobody | CLUSTER | {"interBrokerListener": "INTERNAL"}
    loaded = broker(rendered(among_brokers, tmp_path), 1)
    assert inter_broker_listener(loaded.config) == "INTERNAL"
    assert "ssl.truststore.location" in loaded.config.given


def test_further_settings_of_a_secret_win(tmp_path: Path) -> None:
    documents = rendered({"settingsSecret": "more"}, tmp_path)
    assert container(documents)["args"] == ["serve", "--config", "/etc/odradek/secret/server.properties"]
    assert {"name": "secret", "mountPath": "/etc/odradek/secret", "readOnly": True} in container(documents)[
        "volumeMounts"
    ]


@pytest.mark.long
def test_values_win_over_the_listeners_that_the_chart_makes(tmp_path: Path) -> None:
    documents = rendered({"settings": {"advertised.listeners": "PLAINTEXT://elsewhere:1"}}, tmp_path)
    assert addresses(broker(documents, 1)) == ["PLAINTEXT://elsewhere:1"]


@pytest.mark.parametrize(
    ("external", "told"),
    [
        ({"type": "NodePort", "host": "nodes.example"}, ["nodes.example:31092", "nodes.example:31093"]),
        ({"type": "NodePort", "hosts": ["a", "b", "c"], "firstNodePort": 30000}, ["a:30000", "b:30001"]),
        ({"type": "LoadBalancer", "hosts": ["a", "b", "c"]}, ["a:9094", "b:9094"]),
        ({"type": "LoadBalancer", "hosts": ["a", "b", "c"], "port": 443}, ["a:443", "b:443"]),
    ],
)
def test_clients_outside_reach_each_broker_by_an_address_of_its_own(
    external: dict[str, Any], told: list[str], tmp_path: Path
) -> None:
    documents = rendered(CLUSTER | {"external": external | {"protocol": "PLAINTEXT"}}, tmp_path)
    for ordinal, address in enumerate(told, 1):
        assert addresses(broker(documents, ordinal))[1] == f"EXTERNAL://{address}"
        spec = documents["Service", f"mine-{ordinal}-external"]["spec"]
        assert spec["type"] == external["type"]
        assert spec["selector"]["statefulset.kubernetes.io/pod-name"] == f"mine-{ordinal}"
        (port,) = spec["ports"]
        assert address.endswith(f":{port.get('nodePort', port['port'])}")
        assert {"name": port["targetPort"], "containerPort": port["port"]} in container(documents)["ports"]


@pytest.mark.long
def test_what_pods_and_accounts_are_given(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "imagePullSecrets": [{"name": "registry"}],
        "extraEnv": [{"name": "KAFKA_NUM_PARTITIONS", "value": "7"}],
        "envFrom": [{"secretRef": {"name": "passwords"}}],
        "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        "initContainers": [{"name": "first", "image": "busybox"}],
        "extraContainers": [{"name": "beside", "image": "busybox"}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "kafka", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}],
        "priorityClassName": "high",
        "podLabels": {"team": "data"},
        "podAnnotations": {"note": "yes"},
        "serviceAccount": {"create": True, "annotations": {"role": "x"}},
        "probes": {"liveness": {"periodSeconds": 30}, "startup": {"failureThreshold": 7}},
        "storage": {"size": "1Ti", "className": "fast"},
    }
    documents = rendered(given, tmp_path)
    of_pod = pod(documents)
    for name in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity", "topologySpreadConstraints"):
        assert of_pod[name] == given[name]
    assert of_pod["priorityClassName"] == "high"
    assert given["initContainers"] == of_pod["initContainers"]
    assert given["extraContainers"] == of_pod["containers"][1:]
    assert given["extraVolumes"][0] in of_pod["volumes"]
    assert given["extraVolumeMounts"][0] in container(documents)["volumeMounts"]
    assert container(documents)["envFrom"] == given["envFrom"]
    assert broker(documents, 1).config.integer("num.partitions") == 7
    assert container(documents)["livenessProbe"]["periodSeconds"] == 30
    assert container(documents)["startupProbe"]["failureThreshold"] == 7
    assert of_pod["serviceAccountName"] == "mine"
    assert of_pod["automountServiceAccountToken"] is False
    assert documents["ServiceAccount", "mine"]["metadata"]["annotations"] == {"role": "x"}
    metadata = documents["StatefulSet", "mine"]["spec"]["template"]["metadata"]
    assert metadata["labels"]["team"] == "data"
    assert metadata["annotations"]["note"] == "yes"
    (claim,) = documents["StatefulSet", "mine"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"


def test_a_service_monitor_finds_each_broker_once(tmp_path: Path) -> None:
    values = {"metrics": {"annotations": False, "serviceMonitor": {"enabled": True, "labels": {"release": "p"}}}}
    documents = rendered(values, tmp_path)
    monitor = documents["ServiceMonitor", "mine"]
    assert monitor["metadata"]["labels"]["release"] == "p"
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = [one for (kind, _), one in documents.items() if kind == "Service"]
    (service,) = [one for one in services if wanted <= one["metadata"]["labels"].items()]
    assert ports(service)[monitor["spec"]["endpoints"][0]["port"]] == 9404
    annotations = documents["StatefulSet", "mine"]["spec"]["template"]["metadata"]["annotations"]
    assert [*annotations] == ["checksum/config"]


def test_a_network_policy_opens_the_listeners_and_http(tmp_path: Path) -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"team": "data"}}}]
    external = {"type": "LoadBalancer", "hosts": ["a"], "protocol": "PLAINTEXT"}
    values = {"networkPolicy": {"enabled": True, "clients": peers}, "external": external}
    policy = rendered(values, tmp_path)["NetworkPolicy", "mine"]["spec"]
    among, clients, http, outside = policy["ingress"]
    assert among["from"][0]["podSelector"]["matchLabels"] == policy["podSelector"]["matchLabels"]
    assert clients == {"ports": [{"protocol": "TCP", "port": 9092}], "from": peers}
    assert http == {"ports": [{"protocol": "TCP", "port": 9404}]}
    assert outside == {"ports": [{"protocol": "TCP", "port": 9094}]}


def test_brokers_run_read_only_and_without_capabilities(tmp_path: Path) -> None:
    documents = rendered({}, tmp_path)
    limits = container(documents)["securityContext"]
    assert pod(documents)["securityContext"]["runAsNonRoot"] is True
    assert limits["readOnlyRootFilesystem"] is True
    assert limits["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.long
def test_a_new_broker_restarts_none_of_the_others_and_a_new_setting_all(tmp_path: Path) -> None:
    def checksum(values: dict[str, Any]) -> str:
        template = rendered(values, tmp_path)["StatefulSet", "mine"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    assert checksum(CLUSTER) == checksum(CLUSTER | {"brokers": 4})
    assert checksum(CLUSTER) != checksum(CLUSTER | {"settings": {"num.partitions": 2}})


EXTERNAL = {"type": "LoadBalancer", "protocol": "PLAINTEXT"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"brokers": 3}, "controllers.voters"),
    ({"controllers": {"voters": VOTERS}}, "controllers.clusterId"),
    ({"interBrokerListener": "OTHER"}, "interBrokerListener: expected one of PLAINTEXT"),
    ({"listeners": SECURE["listeners"], "sasl": SECURE["sasl"]}, "tls.existingSecret: expected"),
    ({"listeners": SECURE["listeners"], "tls": SECURE["tls"]}, "sasl.existingSecret: expected"),
    ({"external": EXTERNAL}, "external.hosts: expected where clients reach each broker"),
    ({"external": EXTERNAL | {"host": "one-for-all"}}, "external.hosts: expected where clients reach each broker"),
    ({"external": EXTERNAL | {"hosts": ["a", "b"]}}, "external.hosts: expected as many as brokers"),
    ({"external": EXTERNAL | {"hosts": ["a"], "name": "PLAINTEXT"}}, "external.name: expected another"),
    # By values.schema.json.
    ({"broker": 3}, "'broker' not allowed"),
    ({"tls": {"secret": "x"}}, "'secret' not allowed"),
    ({"listeners": []}, "/listeners"),
    ({"listeners": [{"name": "A", "port": 1, "protocol": "TLS"}]}, "/listeners/0/protocol"),
    ({"listeners": [{"name": "a b", "port": 1, "protocol": "SSL"}]}, "/listeners/0/name"),
    ({"brokers": "three"}, "/brokers"),
    ({"profile": "prod"}, "/profile"),
    ({"settings": {"a": ["b"]}}, "/settings/a"),
    ({"probes": {"liveness": {"httpGet": {}}}}, "'httpGet' not allowed"),
    ({"tls": {"existingSecret": "x", "type": "PKCS12"}}, "/tls"),
]


@pytest.mark.parametrize(("values", "told"), REFUSED, ids=[told for _, told in REFUSED])
def test_wrong_values_are_refused(values: dict[str, Any], told: str, tmp_path: Path) -> None:
    done = render(values, tmp_path)
    assert done.returncode != 0
    assert told in done.stderr


def test_the_schema_has_every_value_and_the_chart_the_version_of_the_wheel() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    assert {*values} == {*schema} - {"global"}
    for name, value in values.items():
        if schema[name].get("additionalProperties") is False:
            assert {*value} <= {*schema[name]["properties"]}, name
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert f'version = "{chart["appVersion"]}"' in (ROOT / "pyproject.toml").read_text()
