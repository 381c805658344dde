"""Configurations of the schema registry: `schema.registry.` and the name that Confluent's registry has for it."""

from __future__ import annotations

from broker.config.definition import Rows, at_least, boolean, entries, integer, one_of, string

LEVELS = (
    "none",
    "backward",
    "backward_transitive",
    "forward",
    "forward_transitive",
    "full",
    "full_transitive",
)

REGISTRY: Rows = {
    "schema.registry.listeners": entries(
        (),
        "Addresses of the schema registry, such as `http://127.0.0.1:8081` or `https://0.0.0.0:8081`; port 0 is a free "
        "one, and an empty value means that there is no registry ([registry.md](registry.md)). Needs "
        "`pip install '/path/to/odradek[registry]'`. Keys and certificates of `https` are those of a listener with the "
        "name `registry`: `listener.name.registry.ssl.keystore.location`, or without that `ssl.keystore.location`.",
        of_plugin=True,
    ),
    "schema.registry.kafkastore.topic": string(
        "_schemas",
        "The topic that holds the schemas, in the records of Confluent's registry; made when it is needed.",
        of_plugin=True,
    ),
    "schema.registry.kafkastore.topic.replication.factor": integer(
        3,
        "Replicas of that topic when it is made, or as many as there are brokers.",
        at_least(1, 32767),
        of_plugin=True,
    ),
    "schema.registry.schema.compatibility.level": string(
        "backward",
        "The level of subjects for which none was set.",
        one_of(*LEVELS, ignore_case=True),
        of_plugin=True,
    ),
    "schema.registry.mode.mutability": boolean(True, "Whether clients may set modes.", of_plugin=True),
}
