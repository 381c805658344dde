"""UnregisterBroker 0 (KIP-500; Kafka's `ClusterControlManager.unregisterBroker`): only this node is registered.

Deviation: Kafka unregisters even a running broker, which leaves a cluster of one node without a broker until its next
start. Here it stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from broker.network.context import RequestContext
from protocol.errors import BrokerIdNotRegistered, InvalidRequest

if TYPE_CHECKING:
    from kio.schema.unregister_broker.v0 import UnregisterBrokerRequest


def handle(ctx: RequestContext, request: UnregisterBrokerRequest) -> NoReturn:
    if request.broker_id in ctx.image.cluster.brokers:
        raise InvalidRequest(f"Broker ID {request.broker_id} is the only one, and runs")
    raise BrokerIdNotRegistered(f"Broker ID {request.broker_id} is not currently registered")
