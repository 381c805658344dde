#!/bin/sh
# Starts the broker with what the image sets, a mounted server.properties, and the environment, in ascending precedence.
# Another user of the same group, such as the next start's in OpenShift, has to be able to go on with the files, and nobody
# else: records are in them, and passwords as SCRAM keeps them.
umask 007
here=$(dirname "$(readlink -f "$0")")
# For healthcheck.py, which looks by the same rule. /dev/shm can be written even if the container's root cannot.
told=${TMPDIR:-/tmp}
[ -w "$told" ] || told=/dev/shm
set -- "$@" --ready-file "$told/odradek-ready.json" --fallback "$here/listeners.properties"
# Where Apache's image has it, and Bitnami's.
for folder in "${KAFKA_MOUNTED_CONF_DIR:-/bitnami/kafka/config}" /mnt/shared/config; do
  [ -f "$folder/server.properties" ] && set -- --config "$folder/server.properties" "$@"
done
exec "$here/bin/odradek" serve --config "$here/image.properties" "$@"
