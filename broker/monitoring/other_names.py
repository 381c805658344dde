"""Further names of metrics: rule files of the JMX exporter differ, and dashboards are made for one of them.

Ours are those of Strimzi's rules where these have a name. Confluent's rules leave a meter its name in Kafka
(`bytesinpersec`, a count all the same) and join the words of a type (`socketservermetrics`).
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

_METERS = (
    "kafka_controller_controllerstats_",
    "kafka_network_requestmetrics_",
    "kafka_server_brokertopicmetrics_",
    "kafka_server_fetchsessioncache_",
    "kafka_server_replicamanager_",
)
"""Types whose counts are Kafka's meters, `...PerSec`."""

_TYPES = {
    "kafka_server_broker_metadata_metrics_": "kafka_server_brokermetadatametrics_",
    "kafka_server_raft_metrics_": "kafka_server_raftmetrics_",
    "kafka_server_socket_server_metrics_": "kafka_server_socketservermetrics_",
}
_SINGLE = {
    "kafka_network_socketserver_networkprocessoravgidle_percent": (
        "kafka_network_socketserver_networkprocessoravgidlepercent"
    ),
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": (
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate"
    ),
}


def other_names(family: Metric) -> Iterator[Metric]:
    """The family once more, under the other name if it has one."""
    name = _other_name(family)
    if name is not None:
        copy = GaugeMetricFamily(name, family.documentation)
        copy.samples = [sample._replace(name=name) for sample in family.samples]
        yield copy


def _other_name(family: Metric) -> str | None:
    name = family.name
    if family.type == "counter":
        return f"{name}persec" if name.startswith(_METERS) else None
    if family.type != "gauge":
        return None
    prefix = next((prefix for prefix in _TYPES if name.startswith(prefix)), None)
    return _SINGLE.get(name) if prefix is None else _TYPES[prefix] + name.removeprefix(prefix)
