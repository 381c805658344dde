#!/bin/sh
# Stands where Kafka's images have the script that starts the broker; Testcontainers calls it once it has set
# KAFKA_ADVERTISED_LISTENERS.
exec "$(dirname "$(readlink -f "$0")")/serve.sh"
