"""A broker whose only disk was replaced: its replicas are fetched anew, and may lead."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient, NewTopic

from odradek import Broker
from tests.cluster.client import leaders, produce, read_all, until
from tests.cluster.kafka_controllers import KafkaControllers
from tests.cluster.mixed_cluster import until_in_sync

TOPIC = "renewed"
VALUES = [str(number) for number in range(100)]


def test_a_replica_on_a_new_disk_leads_when_the_other_broker_stops(controllers: KafkaControllers) -> None:
    """The controller lets no replica lead that it takes to be on the disk that is gone."""
    with (
        Broker(controllers.broker_settings(1), start_timeout=90) as stays,
        Broker(controllers.broker_settings(2), start_timeout=90) as renewed,
    ):
        admin = AdminClient({"bootstrap.servers": renewed.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[1, 2]])])[TOPIC].result(30)
        until_in_sync(admin, 2, only=TOPIC)
        assert produce(stays.bootstrap_servers, TOPIC, VALUES, 1) == len(VALUES)
        renewed.start_anew()
        until_in_sync(admin, 2, only=TOPIC)
        stays.stop()
        until(lambda: leaders(admin, TOPIC) == {0: 2}, "the replica on the new disk leads")
        assert read_all(renewed.bootstrap_servers, TOPIC, 1, len(VALUES)) == VALUES
