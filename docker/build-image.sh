#!/usr/bin/env bash
# Builds docker/Dockerfile and tries the container, on Debian as root, with no container registry: the base is a fresh
# debootstrap, the Python packages come from a wheelhouse made outside. The trial: the health check, a kcat round trip,
# data kept over a restart, a graceful stop with exit status 0, the environment that the official apache/kafka image is
# given, and a start as by Testcontainers. `--save FILE` keeps the image as an archive for `docker load`; everything else
# is removed at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

save=
[ "${1:-}" = --save ] && save=$2
python=.venv/bin/python
port=$($python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
http_port=$($python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
suite=trixie
python_version=3.13 # trixie's

work=$(mktemp -d /var/tmp/odradek-image.XXXXXX)
export CONTAINERS_STORAGE_CONF=$work/storage.conf BUILDAH_ISOLATION=chroot
name=odradek-trial-$$
# Without systemd nobody runs the health check by itself; the trial does it by hand.
pod() { podman --runtime runc --cgroup-manager=cgroupfs "$@" 2> >(grep -v 'systemd connection' >&2); }
cleanup() {
  status=$?
  if [ $status != 0 ] && command -v podman >/dev/null; then pod logs "$name" >&2 || true; fi
  if command -v podman >/dev/null; then pod rm --force --volumes "$name" >/dev/null 2>&1 || true; fi
  rm -rf "$work" build/wheels
  exit $status
}
trap cleanup EXIT

missing=()
for tool in buildah podman runc debootstrap kcat; do command -v $tool >/dev/null || missing+=("$tool"); done
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
printf '[storage]\ndriver = "vfs"\nrunroot = "%s/run"\ngraphroot = "%s/graph"\n' "$work" "$work" >"$work/storage.conf"

echo "== base image ($suite by debootstrap)"
debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv $suite "$work/rootfs" >"$work/debootstrap.log" \
  || { tail -20 "$work/debootstrap.log" >&2; exit 1; }
rm -rf "$work"/rootfs/var/cache/apt/* "$work"/rootfs/var/lib/apt/lists/*
base=$(buildah from scratch)
buildah add --quiet "$base" "$work/rootfs" / >/dev/null
buildah commit --quiet "$base" localhost/base >/dev/null
buildah rm "$base" >/dev/null
rm -rf "$work/rootfs"

echo "== wheelhouse for Python $python_version"
platforms=()
machine=$(uname -m)
for glibc in 2_17 2_24 2_26 2_27 2_28 2_31 2_34 2_35; do platforms+=(--platform "manylinux_${glibc}_$machine"); done
$python -I -m pip download -q --no-deps --require-hashes --only-binary :all: --python-version $python_version \
  "${platforms[@]}" --platform "manylinux2014_$machine" --platform "manylinux1_$machine" -r requirements-image.txt -d build/wheels

echo "== image"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
buildah bud --quiet --format docker --network=host --pull-never -f docker/Dockerfile -t localhost/odradek -t "localhost/odradek:$version" \
  --build-arg VERSION="$version" --build-arg BASE_IMAGE=localhost/base --build-arg PIP_OPTIONS="--no-index --find-links /src/build/wheels" . >/dev/null
pod images --filter reference=localhost/odradek --format '{{.Repository}} {{.Size}}'

run() { # arguments are NAME=VALUE of the environment
  pod run --detach --name "$name" --network=host --ulimit nofile=20000:20000 --ulimit nproc=32768:32768 \
    --env KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:"$port" --env KAFKA_ODRADEK_HTTP_PORT="$http_port" \
    "${@/#/--env=}" localhost/odradek >/dev/null
}
await_health() {
  for _ in $(seq 50); do
    pod healthcheck run "$name" >/dev/null 2>&1 && return
    sleep 0.2
  done
  echo "never healthy" >&2
  return 1
}

echo "== trial on port $port"
run KAFKA_LISTENERS=PLAINTEXT://127.0.0.1:"$port"
await_health
echo "healthy"

round_trip() { kcat -C -q -b 127.0.0.1:"$port" -t license -p 0 -o beginning -e | diff -q - <(grep -v '^$' LICENSE); }
grep -v '^$' LICENSE | kcat -P -b 127.0.0.1:"$port" -t license -p 0 -z gzip
round_trip
echo "kcat read back what kcat wrote"
pod exec "$name" odradek topics list -b 127.0.0.1:"$port" | grep -q '^license '
echo "the image's own command line lists the topic"

stop_status() {
  pod stop --time 20 "$name" >/dev/null
  pod inspect --format '{{.State.ExitCode}}' "$name"
}
first=$(stop_status)
pod start "$name" >/dev/null
await_health
round_trip
second=$(stop_status)
[ "$first $second" = "0 0" ] || { echo "exit status of the stops: $first $second" >&2; exit 1; }
echo "stopped gracefully twice with exit status 0; the data was still there in between"
pod rm --volumes "$name" >/dev/null

echo "== trial with the environment of the official apache/kafka image"
run KAFKA_NODE_ID=7 KAFKA_PROCESS_ROLES=broker,controller KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER \
  KAFKA_LISTENERS=PLAINTEXT://127.0.0.1:"$port",CONTROLLER://127.0.0.1:9093 \
  KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT \
  KAFKA_CONTROLLER_QUORUM_VOTERS=7@localhost:9093 KAFKA_NUM_PARTITIONS=4 KAFKA_HEAP_OPTS=-Xmx1g \
  KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1 KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR=1 \
  KAFKA_TRANSACTION_STATE_LOG_MIN_ISR=1 KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0 CLUSTER_ID=4L6g3nShT-eMCtK--X86sw
await_health
echo hello | kcat -P -b 127.0.0.1:"$port" -t four -p 3
[ "$(kcat -C -q -b 127.0.0.1:"$port" -t four -o beginning -e)" = hello ]
kcat -L -b 127.0.0.1:"$port" | grep -E 'broker 7|"four" with 4 partitions'
pod logs "$name" 2>&1 | grep '"level": "warning"' | sed 's/"level".*//'
[ "$(stop_status)" = 0 ]
pod rm --volumes "$name" >/dev/null

echo "== trial as Testcontainers starts Kafka's images"
script=/tmp/testcontainers_start.sh
pod run --detach --name "$name" --network=host --ulimit nofile=20000:20000 --ulimit nproc=32768:32768 \
  --env KAFKA_LISTENERS=PLAINTEXT://127.0.0.1:"$port" --env KAFKA_ODRADEK_HTTP_PORT="$http_port" \
  localhost/odradek sh -c "while [ ! -f $script ]; do sleep 0.1; done; $script" >/dev/null
printf '#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:%s\n/etc/kafka/docker/run\n' "$port" >"$work/start.sh"
chmod 777 "$work/start.sh"
pod cp "$work/start.sh" "$name:$script"
for _ in $(seq 100); do
  pod logs "$name" 2>&1 | grep -q 'Transitioning from RECOVERY to RUNNING' && break
  sleep 0.1
done
echo hello | kcat -P -b 127.0.0.1:"$port" -t started -p 0
[ "$(kcat -C -q -b 127.0.0.1:"$port" -t started -o beginning -e)" = hello ]
echo "started by its script, and served"

if [ -n "$save" ]; then
  buildah push --quiet localhost/odradek "docker-archive:$save:odradek:latest"
  echo "saved: $save"
fi
