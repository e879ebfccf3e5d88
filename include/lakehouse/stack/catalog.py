"""The REST catalog: Iceberg's reference servlet behind our launcher, over PostgreSQL and the object store."""

from __future__ import annotations

import os
from dataclasses import dataclass

from lakehouse.identities import identity
from lakehouse.naming import NAMESPACES
from lakehouse.roles import RIGHTS, Role
from lakehouse.settings import Settings
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
        # It keeps the metadata files of every table, and removes them: nobody but maintenance may do that.
        own = identity(settings, Role.MAINTENANCE)
        return {
            "CATALOG_HOST": settings.listen,
            "CATALOG_PORT": str(settings.catalog_port),
            "CATALOG_PROPERTY_URI": f"jdbc:postgresql://{settings.postgres_host}:{settings.postgres_port}/catalog",
            "CATALOG_PROPERTY_JDBC_USER": "catalog",
            "CATALOG_PROPERTY_JDBC_PASSWORD": settings.catalog_db_password.get_secret_value(),
            "CATALOG_PROPERTY_JDBC_SCHEMA__VERSION": "V1",
            "CATALOG_PROPERTY_CLIENTS": "8",
            "CATALOG_PROPERTY_WAREHOUSE": f"s3://{settings.warehouse_bucket}",
            "CATALOG_PROPERTY_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
            **{f"CATALOG_PROPERTY_{name}": value for name, value in _store(settings).items()},
            "AWS_ACCESS_KEY_ID": own.access_key,
            "AWS_SECRET_ACCESS_KEY": own.secret_key,
            **access_environment(settings),
        }

    def healthy(self, since: float) -> bool:  # noqa: ARG002
        # Listing namespaces goes through to the database, as asking for the configuration would not.
        url = f"http://{HOST}:{self.settings.catalog_port}/v1/namespaces"
        return get(url, self.settings.catalog_token.get_secret_value()) is not None


def access_environment(settings: Settings) -> dict[str, str]:
    """The roles that the catalog knows, what each may do, and what it gives them for the store."""
    made = {
        "CATALOG_NAMESPACES": ",".join(NAMESPACES),
        "CATALOG_ROLES": ",".join(Role),
        **{f"CATALOG_VENDED_{name}": value for name, value in _store(settings).items()},
        "CATALOG_VENDED_S3_ENDPOINT": settings.s3_public_endpoint,
    }
    for role in Role:
        own, rights = identity(settings, role), RIGHTS.get(role)
        given = {
            "TOKEN": own.token,
            "ACCESS_KEY": own.access_key,
            "SECRET_KEY": own.secret_key,
            # Who removes orphans must see every table, also admin's other ones, lest it takes their files for orphans.
            "READS": "*" if rights is None or rights.deletes else ",".join(rights.reads),
            "WRITES": ",".join(rights.writes) if rights else "*",
            "DROPS": str(rights is None or rights.deletes).lower(),
        }
        made |= {f"CATALOG_ROLE_{role.upper()}_{name}": value for name, value in given.items()}
    return made


def _store(settings: Settings) -> dict[str, str]:
    """Where the store is, as Iceberg's properties are spelled in variables."""
    return {
        "S3_ENDPOINT": settings.s3_endpoint,
        "S3_PATH__STYLE__ACCESS": str(settings.s3_path_style).lower(),
        "S3_REGION": settings.s3_region,
        "CLIENT_REGION": settings.s3_region,
    }
