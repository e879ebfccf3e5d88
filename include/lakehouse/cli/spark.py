"""`lakehouse spark`: what a Spark of one's own has to know."""

from __future__ import annotations

import typer

from lakehouse.roles import Role
from lakehouse.settings import settings

spark = typer.Typer(no_args_is_help=True)


@spark.callback()
def _spark() -> None:
    """What a Spark of your own has to know."""


@spark.command()
def conf() -> None:
    """Write properties files for a Connect server and, where the platform looks for them, for spark-submit; list jars.

    They name catalog and store with their secrets, and only you can read them.
    """
    from lakehouse.spark_conf import server_properties
    from lakehouse.stack.jars import spark_jars
    from lakehouse.stack.paths import write_private
    from lakehouse.stack.spark import properties, write_submit_conf

    known = settings()
    server = known.home / "spark" / "server.conf"
    write_private(server, properties(server_properties(known)))
    write_submit_conf(known)
    typer.echo(f"{server}\tfor a Connect server")
    for role in Role:
        typer.echo(f"{known.spark_submit_conf(role)}\tfor spark-submit as {role}")
    for jar in spark_jars(known):
        typer.echo(f"{jar}\tfor the class path of driver and executors")
