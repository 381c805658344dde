#!/bin/sh
# Starts the broker with what the image sets, a mounted server.properties, and the environment, in ascending precedence.
# Another user of the same group, such as the next start's in OpenShift, has to be able to go on with the files.
umask 002
here=$(dirname "$(readlink -f "$0")")
mounted=/mnt/shared/config/server.properties
# For healthcheck.py, which looks by the same rule. /dev/shm can be written even if the container's root cannot.
told=${TMPDIR:-/tmp}
[ -w "$told" ] || told=/dev/shm
set -- "$@" --ready-file "$told/odradek-ready.json"
if [ -f "$mounted" ]; then
  set -- --config "$mounted" "$@"
elif [ -z "$KAFKA_LISTENERS$KAFKA_ADVERTISED_LISTENERS$KAFKA_CFG_LISTENERS$KAFKA_CFG_ADVERTISED_LISTENERS" ]; then
  set -- --config $here/listeners.properties "$@"
fi
exec $here/bin/odradek serve --config $here/image.properties "$@"
