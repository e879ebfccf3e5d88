"""How a role shows who it is, and which role the current work is done in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from lakehouse.roles import NARROW, Role, role_for
from lakehouse.settings import Settings, settings

P = ParamSpec("P")
R = TypeVar("R")
_NAMES = ("s3_{}_access_key", "s3_{}_secret_key", "catalog_{}_token")


@dataclass(frozen=True)
class Identity:
    """How a role shows who it is; empty where the machine's own credentials are meant."""

    access_key: str
    secret_key: str
    token: str


def identity(given: Settings, role: Role) -> Identity:
    """The role's keys and token. One that has none of its own uses the platform's: a foreign store may know one key."""
    own: dict[str, Any] = {name: getattr(given, name.format(role)) for name in _NAMES} if role in NARROW else {}
    key, secret, token = (own.get(name) for name in _NAMES)
    has_key = bool(secret and secret.get_secret_value())
    return Identity(
        access_key=key if has_key and key else given.s3_access_key,
        secret_key=(secret if has_key and secret else given.s3_secret_key).get_secret_value(),
        token=(token.get_secret_value() if token else "") or given.catalog_token.get_secret_value(),
    )


_acting: ContextVar[Role | None] = ContextVar("role", default=None)


def acting() -> Role:
    """The role in which the current work is done: what `acting_as` says, else the setting."""
    return _acting.get() or Role(settings().role)


@contextmanager
def acting_as(role: Role) -> Iterator[None]:
    """Do what is inside as this role. Never around a `yield` of a generator: the caller would go on as this role."""
    before = _acting.set(role)
    try:
        yield
    finally:
        _acting.reset(before)


class _OfDataset(Protocol):
    @property
    def dataset(self) -> str: ...


C = TypeVar("C", bound=_OfDataset)


def by_its_writer(step: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[C, P], R]:
    """Have a step on a contract done by the role that writes its dataset."""

    @wraps(step)
    def done(contract: C, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with acting_as(role_for(contract.dataset)):
            return step(contract, *args, **kwargs)

    return done
