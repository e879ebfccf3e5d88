"""Spark's settings for the catalog and the object store, made in one place for the Connect server and spark-submit.

The server itself may do nothing in the lake: each session brings the identity of the role it works in.
"""

from __future__ import annotations

from lakehouse.identities import identity
from lakehouse.naming import CATALOG
from lakehouse.roles import RIGHTS, Role
from lakehouse.settings import Settings

REDACT = "(?i)secret|password|token|access[.-]?key|credential|authorization"


def lake_properties(settings: Settings) -> dict[str, str]:
    """What any Spark session needs in order to find the lake, whoever it is."""
    return {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.defaultCatalog": CATALOG,
        "spark.sql.session.timeZone": "UTC",
        "spark.redaction.regex": REDACT,
        **{f"spark.sql.catalog.{CATALOG}{key}": value for key, value in _catalog(settings).items()},
        **{f"spark.hadoop.fs.s3a.{key}": value for key, value in _s3a(settings).items()},
    }


def server_properties(settings: Settings) -> dict[str, str]:
    """What a Connect server needs to serve the platform's jobs, wherever it runs."""
    return {
        **lake_properties(settings),
        "spark.scheduler.mode": "FAIR",
        # Enough for what every dataset's jobs generate: the next job finds it compiled.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # Each pool would grow to a thousand threads, one a query, before it uses one again.
        "spark.sql.shuffleExchange.maxThreadThreshold": "32",
        "spark.sql.resultQueryStage.maxThreadThreshold": "32",
    }


def identity_properties(settings: Settings, role: Role) -> dict[str, str]:
    """Who a session is: the role's token and keys, and that it does not try to delete what it may not."""
    own, rights = identity(settings, role), RIGHTS.get(role)
    given = {".s3.access-key-id": own.access_key, ".s3.secret-access-key": own.secret_key}
    found = {
        **_catalog_token(settings, own.token),
        **{key: value for key, value in given.items() if value},
        # Files of a write that is given up are left to maintenance.
        ".s3.delete-enabled": str(rights is None or rights.deletes).lower(),
    }
    return {f"spark.sql.catalog.{CATALOG}{key}": value for key, value in found.items()}


def _catalog(settings: Settings) -> dict[str, str]:
    given = {
        ".uri": settings.catalog_uri,
        ".warehouse": settings.catalog_warehouse,
        ".credential": settings.catalog_credential.get_secret_value(),
        ".oauth2-server-uri": settings.catalog_oauth2_uri,
        ".scope": settings.catalog_scope,
        ".s3.endpoint": settings.s3_endpoint,
        ".client.region": settings.s3_region,
    }
    return {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        # A warm server would go on showing a table as it was before another process committed to it.
        ".cache-enabled": "false",
        # Every session has a catalog of its own, and each would leave a reporting thread behind for ever.
        ".rest-metrics-reporting-enabled": "false",
        ".io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        ".s3.path-style-access": str(settings.s3_path_style).lower(),
        **{key: value for key, value in given.items() if value},
    }


def _catalog_token(settings: Settings, token: str) -> dict[str, str]:
    """The token as a header: Iceberg's own token handling leaves a thread pool and its session behind for each job."""
    if settings.catalog_credential.get_secret_value():  # for which that handling is needed
        return {".token": token} if token else {}
    return {".rest.auth.type": "none", ".header.Authorization": f"Bearer {token}"} if token else {}


def _s3a(settings: Settings) -> dict[str, str]:
    """The landing bucket alone, as ingest: tables are read and written by Iceberg's own means."""
    own, bucket = identity(settings, Role.INGEST), settings.landing_bucket
    given = {
        "endpoint": settings.s3_endpoint,
        "endpoint.region": settings.s3_region,
        f"bucket.{bucket}.access.key": own.access_key,
        f"bucket.{bucket}.secret.key": own.secret_key,
    }
    return {
        "path.style.access": str(settings.s3_path_style).lower(),
        "connection.ssl.enabled": str(not settings.s3_endpoint.startswith("http://")).lower(),
        **{key: value for key, value in given.items() if value},
    }
