"""`python -m lakehouse.stack.container …`: what a container of docker-compose.yaml runs.

start NAME       become that service, which is the one that a clone's stack runs
healthy NAME     exit with 0 if this container's service answers properly
set-up data      databases, buckets, identities; harmless to repeat
set-up airflow   Airflow's database, users and pools; harmless to repeat
first-look       switch the sample's DAGs on, and follow its days to gold, once
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import timedelta

import psutil

from lakehouse.errors import LakehouseError
from lakehouse.settings import PREFIX, Settings, settings
from lakehouse.stack import store_setup
from lakehouse.stack.airflow import ensure_database
from lakehouse.stack.cluster import SparkMaster, SparkWorker
from lakehouse.stack.launch import launch
from lakehouse.stack.postgres import Postgres
from lakehouse.stack.registry import services
from lakehouse.stack.secret_file import missing_secrets
from lakehouse.stack.service import Service
from lakehouse.stack.spark import write_submit_conf


def find(known: Settings, name: str) -> Service:
    """The service of that name, the cluster's among them."""
    every = [*services(known), SparkMaster(known), SparkWorker(known)]
    found = next((service for service in every if service.name == name), None)
    if found is None:
        raise LakehouseError(f"There is no service {name!r}: there are {', '.join(one.name for one in every)}.")
    return found


def start(known: Settings, name: str) -> None:
    """Become the service."""
    if name == "sample" and not known.sample:
        print("the sample shop is off: LAKEHOUSE_SAMPLE=false")
        return
    found = find(known, name)
    # Airflow's database is made by `set-up airflow`, before any of its processes starts.
    write_submit_conf(known) if found.group == "airflow" else found.prepare()
    launch(found, os.getppid())


def healthy(known: Settings, name: str) -> None:
    """Leave with 1 unless the service is well; it began with this container."""
    sys.exit(0 if find(known, name).healthy(psutil.Process(1).create_time()) else 1)


def set_up(known: Settings, what: str) -> None:
    """Make what the services need in the databases and in the store."""
    if what == "airflow":
        ensure_database(known)
        return
    missing = sorted(f"{PREFIX}{name.upper()}" for name in missing_secrets(known))
    if missing:
        raise LakehouseError(f".env has no value for {', '.join(missing)}: run `make env`, then start again.")
    Postgres(known).settle()
    store_setup.set_up(known)


def first_look(known: Settings) -> None:
    """Bring the sample's days to gold and show them; later starts leave the DAGs as people have set them."""
    done = known.home / "run" / "first-look"
    if not known.sample or done.exists():
        return
    if known.start is None:
        raise LakehouseError("LAKEHOUSE_START, the sample's first day, is not in .env: run `make env`.")
    from rich.console import Console

    from lakehouse.cli.walkthrough import progress_line, show_gold
    from lakehouse.stack import pipeline

    console, told = Console(width=120), [""]

    def tell(progress: pipeline.Progress) -> None:
        if (line := progress_line(progress)) != told[0]:
            told[0] = line
            console.print(line, highlight=False)

    pipeline.run_pipeline(known, known.start, pipeline.today() - timedelta(days=1), tell)
    show_gold(console)
    console.print(f"Airflow  {known.airflow_url}, user {known.airflow_user}, password in .env", highlight=False)
    done.touch()


def main(arguments: list[str]) -> None:
    known = settings()
    what, *rest = arguments
    actions: dict[str, Callable[..., None]] = {
        "start": start,
        "healthy": healthy,
        "set-up": set_up,
        "first-look": first_look,
    }
    try:
        actions[what](known, *rest)
    except LakehouseError as error:
        sys.exit(f"lakehouse: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
