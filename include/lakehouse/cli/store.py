"""`lakehouse store`: the object store's own set-up."""

from __future__ import annotations

import json

import typer

from lakehouse.roles import Role, policy
from lakehouse.settings import settings

store = typer.Typer(no_args_is_help=True)


@store.command("setup")
def set_up() -> None:
    """Make buckets, identities and policies in a running MinIO, as its root user; harmless to repeat."""
    from lakehouse.stack.store_setup import set_up as make

    make(settings())
    known = settings()
    typer.echo(f"{known.s3_endpoint}: buckets {known.landing_bucket} and {known.warehouse_bucket}; roles {_all()}")


@store.command("policy")
def show_policy(role: Role) -> None:
    """Print a role's policy, for a store that is set up by other means."""
    known = settings()
    typer.echo(json.dumps(policy(role, known.landing_bucket, known.warehouse_bucket), indent=2))


def _all() -> str:
    return ", ".join(Role)
