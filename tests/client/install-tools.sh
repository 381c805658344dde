#!/usr/bin/env bash
# Installs what the tests use beyond Python: kcat, a JDK with Maven, Chromium, Apache Kafka's jars (build/java), and Helm
# (build/tools). What cannot be had is named and left out: the tests that need it skip with the same reason.
set -uo pipefail
cd "$(dirname "$0")/../.."
mkdir -p build/java build/tools

# In the meantime: it takes minutes where Go has built none of it yet.
helm=
if ! command -v helm >/dev/null && [ ! -x build/tools/helm ]; then
  if command -v go >/dev/null; then
    GOBIN=$PWD/build/tools go install -ldflags="-s -w" helm.sh/helm/v3/cmd/helm@v3.22.0 2>build/helm.log &
    helm=$!
  else
    echo "install-tools: no Go, so Helm is left out, and the tests of the chart skip" >&2
  fi
fi

wanted=()
command -v kcat >/dev/null || wanted+=(kcat)
command -v java >/dev/null || wanted+=(openjdk-17-jdk-headless)
command -v mvn >/dev/null || wanted+=(maven)
command -v chromium >/dev/null || wanted+=(chromium)
if [ ${#wanted[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq >/dev/null
    for package in "${wanted[@]}"; do
      candidates=("$package")
      [ "$package" = openjdk-17-jdk-headless ] && candidates+=(default-jdk-headless)
      for candidate in "${candidates[@]}"; do
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$candidate" >/dev/null && continue 2
      done
      echo "install-tools: no package for $package; tests that need it skip" >&2
    done
  else
    echo "install-tools: not root on Debian, so these are left out and their tests skip: ${wanted[*]}" >&2
  fi
fi

if command -v mvn >/dev/null; then
  mvn -q -B -f tests/client/java/pom.xml dependency:copy-dependencies -DoutputDirectory="$PWD/build/java" -Dmdep.overWriteReleases=false \
    || { echo "install-tools: Apache Kafka's jars could not be fetched; tests that need them skip" >&2; rm -rf build/java; }
fi

[ -z "$helm" ] || wait "$helm" \
  || echo "install-tools: Helm could not be built (build/helm.log); the tests of the chart skip" >&2
exit 0
