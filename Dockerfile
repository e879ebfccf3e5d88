# The whole local stack in one image, as an ordinary user. Built from source: the lock, the jars' sums and MinIO's module
# version are the repository's own.
FROM debian:bookworm-slim

RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates make openjdk-17-jdk-headless procps python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home lakehouse

USER lakehouse
WORKDIR /home/lakehouse/app
COPY --chown=lakehouse requirements.txt pyproject.toml README.md Makefile ./
COPY --chown=lakehouse include ./include
COPY --chown=lakehouse spark_jobs ./spark_jobs
COPY --chown=lakehouse plugins ./plugins
COPY --chown=lakehouse dags ./dags
RUN make env && .venv/bin/lakehouse fetch

ENV PATH=/home/lakehouse/app/.venv/bin:$PATH \
    LAKEHOUSE_HOME=/home/lakehouse/state/stack \
    LAKEHOUSE_ENV_FILE=/home/lakehouse/state/.env
RUN mkdir -m 700 /home/lakehouse/state
VOLUME /home/lakehouse/state

HEALTHCHECK --interval=30s --timeout=20s --start-period=5m CMD ["lakehouse", "status"]
CMD ["lakehouse", "up", "--stay"]
