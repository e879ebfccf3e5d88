"""Spark's settings for the catalog and the object store, made in one place for the Connect server and spark-submit."""

from __future__ import annotations

from lakehouse.naming import CATALOG
from lakehouse.settings import Settings

REDACT = "(?i)secret|password|token|access[.-]?key|credential|authorization"


def lake_properties(settings: Settings) -> dict[str, str]:
    """What any Spark session needs in order to read and write the lake's tables and the landing bucket."""
    return {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.defaultCatalog": CATALOG,
        "spark.sql.session.timeZone": "UTC",
        "spark.redaction.regex": REDACT,
        **{f"spark.sql.catalog.{CATALOG}{key}": value for key, value in _catalog(settings).items()},
        **{f"spark.hadoop.fs.s3a.{key}": value for key, value in _s3a(settings).items()},
    }


def _catalog(settings: Settings) -> dict[str, str]:
    given = {
        ".uri": settings.catalog_uri,
        ".warehouse": settings.catalog_warehouse,
        ".credential": settings.catalog_credential.get_secret_value(),
        ".oauth2-server-uri": settings.catalog_oauth2_uri,
        ".scope": settings.catalog_scope,
        ".s3.endpoint": settings.s3_endpoint,
        ".s3.access-key-id": settings.s3_access_key,
        ".s3.secret-access-key": settings.s3_secret_key.get_secret_value(),
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
        **_catalog_token(settings),
        **{key: value for key, value in given.items() if value},
    }


def _catalog_token(settings: Settings) -> dict[str, str]:
    """The token as a header: Iceberg's own token handling leaves a thread pool and its session behind for each job."""
    token = settings.catalog_token.get_secret_value()
    if settings.catalog_credential.get_secret_value():  # for which that handling is needed
        return {".token": token} if token else {}
    return {".rest.auth.type": "none", ".header.Authorization": f"Bearer {token}"} if token else {}


def _s3a(settings: Settings) -> dict[str, str]:
    given = {
        "endpoint": settings.s3_endpoint,
        "endpoint.region": settings.s3_region,
        "access.key": settings.s3_access_key,
        "secret.key": settings.s3_secret_key.get_secret_value(),
    }
    return {
        "path.style.access": str(settings.s3_path_style).lower(),
        "connection.ssl.enabled": str(not settings.s3_endpoint.startswith("http://")).lower(),
        **{key: value for key, value in given.items() if value},
    }
