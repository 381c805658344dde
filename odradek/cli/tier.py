"""`odradek tier status|verify`: tiered storage of brokers of Odradek, which are asked by a request of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click
from kafka.errors import ClusterAuthorizationFailedError, IncompatibleBrokerVersion

from odradek.cli.connection import TargetCluster, connected
from odradek.cli.general import ClusterCommands
from odradek.cli.kafka_python import require_no_error
from odradek.cli.messages import ExplainRequest
from odradek.cli.output import Output, print_explanation
from odradek.explain_rules import in_order
from odradek.report import Explanation, Finding

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

PATIENCE_S = 600
"""A store with many objects takes its time to be listed."""


@click.group("tier", cls=ClusterCommands)
def main() -> None:
    """How far topics are in remote storage, and whether all of it is there. Both ask for ALTER on the cluster."""


@main.command()
@click.argument("topic", default="")
@connected
def status(cluster: TargetCluster, out: Output, topic: str) -> None:
    """How far each partition of TOPIC, or of all tiered topics, is in remote storage.

    In a cluster all brokers are asked. The exit status is 1 if the store cannot be read.
    """
    _ask(cluster, out, "tier", topic)


@main.command()
@click.argument("topic", default="")
@connected
def verify(cluster: TargetCluster, out: Output, topic: str) -> None:
    """Whether every object of TOPIC, or of all, is in the store, and nothing else is; nothing is changed.

    In a cluster each broker looks for what it leads. The exit status is 1 if objects are lost.
    """
    _ask(cluster, out, "tier_verify", topic)


def _ask(cluster: TargetCluster, out: Output, kind: str, topic: str) -> None:
    """Ask every broker; in a cluster each sentence names the broker that it is of."""
    brokers = sorted(cluster.broker_ids())
    findings: list[Finding] = []
    with cluster.python_admin(max(cluster.timeout, PATIENCE_S)) as admin:
        for broker in brokers:
            told = _told_by(cluster, admin, broker, ExplainRequest(kind=kind, name=topic), is_alone=len(brokers) == 1)
            name = "" if len(brokers) == 1 else f"broker {broker}: "
            findings += [replace(one, text=f"{name}{one.text}") for one in told]
    print_explanation(out, Explanation.of("tier", topic or "all topics", in_order(findings)))


def _told_by(
    cluster: TargetCluster, admin: KafkaAdminClient, broker: int, request: ExplainRequest, *, is_alone: bool
) -> list[Finding]:
    try:
        answer = admin._manager.run(admin._manager.send, request, broker)
        require_no_error(answer)
    except IncompatibleBrokerVersion as error:
        text = "it is another Kafka, or an older Odradek"
        if is_alone:
            problem = f"the broker at {cluster.bootstrap} tells nothing of its tiered storage: {text}"
            raise click.ClickException(problem) from error
        return [Finding("info", "tier_not_told", f"it tells nothing of its tiered storage, as {text}")]
    except ClusterAuthorizationFailedError as error:
        raise click.ClickException("what the broker knows it tells who has ALTER on the cluster") from error
    return [Finding(one.severity, one.rule, one.text, one.advice) for one in answer.findings]
