# Spark, its jars and odradek-pipeline, for every role in docker/spark-compose.yaml. Build from the repository's root.
ARG BASE_IMAGE=python:3.13-slim
FROM ${BASE_IMAGE}
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-21-jre-headless procps \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# PySpark comes as a source distribution: pip makes its wheel.
RUN python3 -m venv /opt/odradek \
 && /opt/odradek/bin/python -m pip install --no-cache-dir --require-hashes -r requirements-pipeline.txt \
 && /opt/odradek/bin/python -m pip install --no-cache-dir --no-index --no-deps --no-build-isolation ./pipeline \
 && ln -s "$(/opt/odradek/bin/python -c 'import pyspark; print(pyspark.__path__[0])')" /opt/spark
RUN useradd --uid 10001 --user-group --create-home odradek \
 && install --directory --owner odradek --group odradek /lake
ENV PATH=/opt/odradek/bin:/opt/spark/bin:/usr/local/bin:/usr/bin:/bin \
    SPARK_HOME=/opt/spark \
    PYSPARK_PYTHON=/opt/odradek/bin/python
USER odradek
WORKDIR /home/odradek
# The jars once, here, instead of at every start.
RUN python -c "from odradek_pipeline import session as s; s.build(s.SessionOptions(parts=(s.KAFKA, s.DELTA, s.ICEBERG))).stop()"
VOLUME /lake
