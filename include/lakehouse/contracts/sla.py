"""What a contract promises about time: when an interval must be there, and how old the table may grow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from lakehouse.contracts.fields import Duration, Strict, TimeZone, editor, write_duration

Severity = Literal["critical", "warning", "info"]
# The gravest first.
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


def _clock(value: Any) -> Any:
    # YAML 1.1 reads 06:30 without quotes as the number 390, minutes of an hour.
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 24 * 60:
        return time(*divmod(value, 60))
    if isinstance(value, str) and not _CLOCK.fullmatch(value):
        raise ValueError(f"'{value}' is no time of day; write hours and minutes, such as 06:30")
    return time.fromisoformat(value) if isinstance(value, str) else value


ClockTime = Annotated[
    time,
    BeforeValidator(_clock),
    PlainSerializer(lambda clock: f"{clock:%H:%M}", return_type=str),
    editor("time of day", _CLOCK),
]


class Sla(Strict):
    """When an interval must be published, and how old the table may grow."""

    ready_within: Duration | None = Field(
        None, description="Published at most this long after the interval's end. With null: no promise."
    )
    ready_by: ClockTime | None = Field(
        None,
        description="Instead: published by this time of day, the first after the interval's end. A time that the "
        "clock skips in spring is taken as long after the change as it is written after it.",
    )
    timezone: TimeZone | None = Field(None, description="Zone of ready_by; left out: the contract's.")
    fresh_within: Duration | None = Field(
        None,
        description="The newest interval in the table ended at most this long ago. Left out: a schedule's period and "
        "two hours (26h for daily ones), or until the next interval is due if that is later.",
    )
    severity: Severity = Field("warning", description="How grave a miss is: critical, warning or info.")

    @model_validator(mode="after")
    def _hangs_together(self) -> Sla:
        if self.ready_within is not None and self.ready_by is not None:
            raise ValueError("give ready_within or ready_by, not both")
        if self.timezone and self.ready_by is None:
            raise ValueError("timezone is that of ready_by; add ready_by, or remove it")
        return self

    def due(self, end: datetime, zone: str) -> datetime | None:
        """When the interval that ends then must be there; None where nothing is promised."""
        if self.ready_within is not None:
            return end + self.ready_within
        return None if self.ready_by is None else _next(self.ready_by, end, ZoneInfo(self.timezone or zone))

    def as_text(self, zone: str) -> str:
        """The promise in words."""
        if self.ready_within is not None:
            return f"published within {write_duration(self.ready_within)} of the interval's end"
        if self.ready_by is not None:
            return f"published by {self.ready_by:%H:%M} {self.timezone or zone}"
        return "no promise"


def _next(clock: time, moment: datetime, zone: ZoneInfo) -> datetime:
    """The first time at or after the moment at which clocks in the zone show this; of two, the first."""
    day = moment.astimezone(zone).date()
    shown = (
        datetime.combine(day + timedelta(days), clock, zone).replace(fold=fold) for days in range(3) for fold in (0, 1)
    )
    in_utc = (one.astimezone(moment.tzinfo) for one in shown)
    return next(one for one in in_utc if one >= moment)


def without_rival(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A layer's defaults without the promise that the contract's own takes the place of."""
    promised, own = defaults.get("sla"), given.get("sla")
    if not isinstance(promised, dict) or not isinstance(own, dict):
        return dict(defaults)
    rivals = {"ready_within": ("ready_by", "timezone"), "ready_by": ("ready_within",)}
    gone = {rival for name in own for rival in rivals.get(name, ())}
    return {**defaults, "sla": {name: value for name, value in promised.items() if name not in gone}}
