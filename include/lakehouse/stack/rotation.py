"""New secrets for the local stack, all of them, without losing data.

The new values are written down beside the old ones before anything is changed: whoever is cut off in the middle runs it
again, and it is completed with the same values. Each step may be repeated.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict, SecretStr

from lakehouse.errors import LakehouseError
from lakehouse.settings import FILE, PREFIX, Settings, env_file, environment, settings
from lakehouse.stack import lifecycle, paths
from lakehouse.stack.airflow import is_set_up, rotate_fernet_key
from lakehouse.stack.postgres import Postgres
from lakehouse.stack.registry import services
from lakehouse.stack.secret_file import GENERATED, remember
from lakehouse.stack.supervision import DOWN, Supervisor

Tell = Callable[[str], None]
# Names stay as they are: a secret is what is changed.
ROTATED = tuple(name for name in GENERATED if Settings.model_fields[name].annotation is SecretStr)


class Pending(BaseModel):
    """A rotation on its way: what secrets were and will be, and what ran when it began."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    old: dict[str, str]
    new: dict[str, str]
    ran: tuple[str, ...]


def pending_file(known: Settings) -> Path:
    return known.home / "secrets.pending"


def refuse_half_way(known: Settings) -> None:
    """Nothing is started between old secrets and new ones."""
    if pending_file(known).exists():
        raise LakehouseError("The secrets are half changed: run `lakehouse secrets rotate`, which completes it.")


def rotate(tell: Tell) -> int:
    """Give every secret of the local stack a new value, and return how many there are.

    Services are stopped and those that ran are started again, so tasks that are running are tried again by Airflow.
    """
    known = settings()
    _refuse_foreign()
    if not (Postgres(known).data / "PG_VERSION").exists():
        raise LakehouseError("there is no local stack here; what containers use is not changed by .env alone")
    with _alone(known):
        plan = _begun(known)
        tell("stopping services")
        lifecycle.down(known)
        tell("changing the databases' passwords")
        _change_databases(known, plan)
        remember(plan.new)
        if is_set_up(known):
            tell("encrypting Airflow's connections anew")
            rotate_fernet_key(settings(), plan.old["airflow_fernet_key"])
        _start_again(settings(), plan.ran, tell)
        pending_file(known).unlink()
    return len(plan.new)


def _begun(known: Settings) -> Pending:
    """The rotation that was cut off, else a new one; written down before anything is changed."""
    file = pending_file(known)
    if file.exists():
        return Pending.model_validate_json(file.read_text(encoding="utf-8"))
    states = Supervisor(known).states()
    made = Pending(
        old={name: value for name, value in known.secrets().items() if name in ROTATED},
        new={name: GENERATED[name]() for name in ROTATED},
        ran=tuple(name for name, state in states.items() if state.state not in DOWN),
    )
    paths.write_private(file, json.dumps(made.model_dump(mode="json")))
    return made


def _refuse_foreign() -> None:
    """What comes from elsewhere than .env can only be changed there."""
    text = env_file().read_text(encoding="utf-8") if env_file().exists() else ""
    for name in (f"{PREFIX}{one.upper()}" for one in ROTATED):
        if name in environment() or f"{name}{FILE}" in environment():
            raise LakehouseError(f"{name} comes from the environment: change it there, for .env is not asked for it.")
        if f"\n{name}{FILE}=" in f"\n{text}":
            raise LakehouseError(f"{name} comes from a file: change it there, and take {name}{FILE} out of .env.")


def _change_databases(known: Settings, plan: Pending) -> None:
    """All in one transaction, by the superuser's old password or, where that was done before, its new one."""
    changed = known.model_copy(update={name: SecretStr(value) for name, value in plan.new.items()})
    with suppress(LakehouseError):  # it runs, and does not know the password of .env any more
        lifecycle.up(known, Postgres.name)
    Postgres(changed).change_passwords(plan.old["postgres_password"])


def _start_again(known: Settings, ran: tuple[str, ...], tell: Tell) -> None:
    """Those that ran before; with them everything that a service makes of its secrets when it starts."""
    every = [one.name for one in services(known)]
    if not ran:
        lifecycle.down(known)
    elif set(every) <= set(ran):
        lifecycle.up(known, "", lambda service, state: tell(f"{service} {state}"))
    else:
        for name in (name for name in every if name in ran):
            lifecycle.up(known, name, lambda service, state: tell(f"{service} {state}"))


@contextmanager
def _alone(known: Settings) -> Iterator[None]:
    """One rotation at a time."""
    paths.make_private(known.home)
    with (known.home / "secrets.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LakehouseError("The secrets are being changed by another `lakehouse secrets rotate`.") from None
        yield
