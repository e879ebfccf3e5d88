"""The REST catalog: Iceberg's reference servlet behind our launcher, over PostgreSQL and the object store."""

from __future__ import annotations

import os
from dataclasses import dataclass

from lakehouse.stack import jars
from lakehouse.stack.java import COMPILED, find_java
from lakehouse.stack.probe import get
from lakehouse.stack.service import HOST, Service

# It mostly waits for the database and the store: the first compiler and the plain collector start sooner.
SMALL = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData")
# S3FileIO says at every table that it has no Hadoop to count its calls with.
QUIET = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.iceberg.aws.s3.S3FileIO=error",
)
LAUNCHER = COMPILED.with_suffix(".java")


@dataclass(frozen=True)
class Catalog(Service):
    name = "catalog"
    group = "data"
    stage = 2

    def ports(self) -> dict[str, int]:
        return {"catalog_port": self.settings.catalog_port}

    def command(self) -> list[str]:
        on_path = [str(path) for path in jars.paths("catalog")]
        # An image has it compiled; in a clone Java compiles it at each start.
        launcher, folder = (LAUNCHER.stem, [str(LAUNCHER.parent)]) if COMPILED.exists() else (str(LAUNCHER), [])
        return [str(find_java().program), *SMALL, *QUIET, "-cp", os.pathsep.join(on_path + folder), launcher]

    def environment(self) -> dict[str, str]:
        settings = self.settings
        return {
            "CATALOG_HOST": settings.listen,
            "CATALOG_PORT": str(settings.catalog_port),
            "CATALOG_TOKEN": settings.catalog_token.get_secret_value(),
            "CATALOG_PROPERTY_URI": f"jdbc:postgresql://{settings.postgres_host}:{settings.postgres_port}/catalog",
            "CATALOG_PROPERTY_JDBC_USER": "catalog",
            "CATALOG_PROPERTY_JDBC_PASSWORD": settings.catalog_db_password.get_secret_value(),
            "CATALOG_PROPERTY_JDBC_SCHEMA__VERSION": "V1",
            "CATALOG_PROPERTY_CLIENTS": "8",
            "CATALOG_PROPERTY_WAREHOUSE": f"s3://{settings.warehouse_bucket}",
            "CATALOG_PROPERTY_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
            "CATALOG_PROPERTY_S3_ENDPOINT": settings.s3_endpoint,
            "CATALOG_PROPERTY_S3_PATH__STYLE__ACCESS": str(settings.s3_path_style).lower(),
            "CATALOG_PROPERTY_CLIENT_REGION": settings.s3_region,
            "AWS_ACCESS_KEY_ID": settings.s3_access_key,
            "AWS_SECRET_ACCESS_KEY": settings.s3_secret_key.get_secret_value(),
        }

    def healthy(self, since: float) -> bool:  # noqa: ARG002
        # Listing namespaces goes through to the database, as asking for the configuration would not.
        url = f"http://{HOST}:{self.settings.catalog_port}/v1/namespaces"
        return get(url, self.settings.catalog_token.get_secret_value()) is not None
