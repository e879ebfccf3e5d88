"""Routes: who is told, by the settings. What is wrong with them is said in sentences that hold no secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError

from lakehouse.alerts.model import Alert
from lakehouse.contracts.sla import Severity
from lakehouse.settings import PREFIX, settings

LOG, WEBHOOK = "log", "webhook"
RESERVED = (LOG, WEBHOOK)
_WEBHOOK_SETTING, _ROUTES_SETTING = f"{PREFIX}ALERT_WEBHOOK", f"{PREFIX}ALERT_ROUTES"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*", re.IGNORECASE)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://.+", re.IGNORECASE | re.DOTALL)


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("must be of letters, digits, - and _")
    if value in RESERVED:
        raise ValueError(f"must be another than {' and '.join(RESERVED)}, which have channels of their own")
    return value


def _url(value: SecretStr) -> SecretStr:
    if not _SCHEME.fullmatch(value.get_secret_value()):
        raise ValueError("must be a URL, such as https://… or slack://…")
    return value


class Route(BaseModel):
    """A receiver, and the alerts that it gets. Nothing named means all of them."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Annotated[str, AfterValidator(_name)]
    url: Annotated[SecretStr, AfterValidator(_url)]
    severities: tuple[Severity, ...] = Field(())
    owners: tuple[str, ...] = Field(())

    @property
    def scheme(self) -> str:
        """The kind of receiver: the part of the URL that is no secret."""
        found = _SCHEME.fullmatch(self.url.get_secret_value())
        return found[1].lower() if found else ""

    @property
    def label(self) -> str:
        """The route in a sentence."""
        return "the alert webhook" if self.name == WEBHOOK else f"the alert route {self.name}"

    def takes(self, alert: Alert) -> bool:
        """Whether the alert is for this route. What has no owner concerns all of them."""
        wanted = not self.severities or alert.severity in self.severities
        return wanted and (not self.owners or alert.owner is None or alert.owner in self.owners)


@dataclass(frozen=True)
class Routes:
    """The routes that can be used, and a sentence for each that cannot."""

    found: tuple[Route, ...]
    problems: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(route.name for route in self.found)


def routes() -> Routes:
    """The routes of this process's settings."""
    given = settings()
    webhook, problems = _webhook(given.alert_webhook)
    found, more = _listed(given.alert_routes.get_secret_value())
    return Routes((*webhook, *found), (*problems, *more))


def _webhook(url: SecretStr) -> tuple[list[Route], list[str]]:
    """The route of the one URL that gets everything."""
    if not url.get_secret_value():
        return [], []
    route = Route.model_construct(name=WEBHOOK, url=url, severities=(), owners=())
    if route.scheme in ("http", "https"):
        return [route], []
    fix = f"services with other URLs go into {_ROUTES_SETTING}"
    return [], [f"{_WEBHOOK_SETTING} must begin with http:// or https:// and is not used; {fix}"]


def _listed(text: str) -> tuple[list[Route], list[str]]:
    """The routes of a JSON list; each that is wrong is left out and told."""
    if not text:
        return [], []
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        # The error itself would show the text.
        at = f"line {error.lineno}, column {error.colno}"
        return [], [f"{_ROUTES_SETTING} is no JSON: {error.msg} at {at}; none of its routes is used"]
    if not isinstance(given, list):
        return [], [f'{_ROUTES_SETTING} must be a JSON list, as [{{"name": …, "url": …}}]; none of its routes is used']
    return _checked(given)


def _checked(given: Sequence[Any]) -> tuple[list[Route], list[str]]:
    found: dict[str, Route] = {}
    problems: list[str] = []
    for number, one in enumerate(given):
        try:
            route = Route.model_validate(one)
        except ValidationError as error:
            problems += _problems(number, error)
            continue
        if route.name in found:
            problems.append(_problem(number, ".name", f"'{route.name}' is there twice; give each its own"))
        else:
            found[route.name] = route
    return list(found.values()), problems


def _problems(number: int, error: ValidationError) -> Iterator[str]:
    """A sentence for each field that is wrong. Values are never shown, nor names that could be one."""
    for one in error.errors(include_input=False, include_url=False, include_context=False):
        parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in one["loc"]]
        field = "".join(part if _NAME.fullmatch(part.strip(".[]")) else ".…" for part in parts)
        yield _problem(number, field, _message(one["type"], one["msg"]))


def _message(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return f"unknown field; there are {', '.join(Route.model_fields)}"
    if kind == "missing":
        return "is missing; add it"
    return message.removeprefix("Value error, ").replace("Input should be", "must be")


def _problem(number: int, field: str, message: str) -> str:
    return f"{_ROUTES_SETTING}[{number}]{field}: {message}; this route is not used"
