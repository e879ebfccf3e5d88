"""All services, in the order in which they start."""

from __future__ import annotations

from lakehouse.settings import Settings
from lakehouse.stack.airflow import ApiServer, DagProcessor, Scheduler, Triggerer
from lakehouse.stack.catalog import Catalog
from lakehouse.stack.minio import Minio
from lakehouse.stack.platform import platform_services
from lakehouse.stack.postgres import Postgres
from lakehouse.stack.service import Service
from lakehouse.stack.spark import SparkConnect

ALL: tuple[type[Service], ...] = (
    Postgres,
    Minio,
    Catalog,
    SparkConnect,
    ApiServer,
    DagProcessor,
    Scheduler,
    Triggerer,
)


def services(settings: Settings) -> list[Service]:
    """Every service of this stack, those that others need first."""
    return [kind(settings) for kind in (*ALL, *platform_services(settings))]


def service(settings: Settings, name: str) -> Service:
    """The service of that name."""
    return next(found for found in services(settings) if found.name == name)
