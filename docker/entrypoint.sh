#!/bin/sh
# Arguments are those of `odradek`, or a whole command, as Testcontainers gives Kafka's images.
case ${1:-} in
  serve) shift; exec /opt/odradek/serve.sh "$@" ;;
  sh | bash | /*) exec "$@" ;;
  *) exec /opt/odradek/bin/odradek "$@" ;;
esac
