"""`odradek tier status|verify`: tiered storage of a broker of Odradek, which is asked by a request of its own."""

from __future__ import annotations

import click
from kafka.errors import ClusterAuthorizationFailedError, IncompatibleBrokerVersion

from odradek.cli.connection import TargetCluster, connected
from odradek.cli.general import ClusterCommands
from odradek.cli.kafka_python import require_no_error
from odradek.cli.messages import ExplainRequest
from odradek.cli.output import Output, print_explanation
from odradek.explain_rules import in_order
from odradek.report import Explanation, Finding

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

    The exit status is 1 if the store cannot be read.
    """
    _ask(cluster, out, "tier", topic)


@main.command()
@click.argument("topic", default="")
@connected
def verify(cluster: TargetCluster, out: Output, topic: str) -> None:
    """Whether every object of TOPIC, or of all, is in the store, and nothing else is; nothing is changed.

    The exit status is 1 if objects are lost.
    """
    _ask(cluster, out, "tier_verify", topic)


def _ask(cluster: TargetCluster, out: Output, kind: str, topic: str) -> None:
    with cluster.python_admin(max(cluster.timeout, PATIENCE_S)) as admin:
        try:
            answer = admin._manager.run(admin._manager.send, ExplainRequest(kind=kind, name=topic))
            require_no_error(answer)
        except IncompatibleBrokerVersion as error:
            raise click.ClickException(
                f"the broker at {cluster.bootstrap} tells nothing of its tiered storage: it is another Kafka, or an "
                "older Odradek"
            ) from error
        except ClusterAuthorizationFailedError as error:
            raise click.ClickException("what the broker knows it tells who has ALTER on the cluster") from error
    findings = [Finding(one.severity, one.rule, one.text, one.advice) for one in answer.findings]
    print_explanation(out, Explanation.of("tier", topic or "all topics", in_order(findings)))
