#!/bin/sh
# Arguments are those of `odradek`, or a whole command, as Testcontainers gives Kafka's images.
case ${1:-} in
  sh | bash | /*) exec "$@" ;;
  *) exec /opt/odradek/bin/odradek "$@" ;;
esac
