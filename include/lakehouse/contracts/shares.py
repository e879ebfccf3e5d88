"""Shares of a whole, such as 20%, and what they come to exactly."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from lakehouse.contracts.fields import editor

_SHARE = re.compile(r"(\d+(?:\.\d+)?)%")


def _share(value: Any) -> Any:
    match = _SHARE.fullmatch(value) if isinstance(value, str) else None
    if not match or Decimal(match[1]) > 100:
        raise ValueError(f"'{value}' is no share; write a percentage, such as 20%")
    return float(Decimal(match[1]) / 100)


def percent(share: float) -> str:
    """A share as a contract has it."""
    return f"{part_of(100, share).normalize():f}%"


def part_of(whole: float, share: float) -> Decimal:
    """A share of a whole as it is written: of 100, 29% are 29, and not the little less that floats make of it."""
    return Decimal(repr(share)) * Decimal(repr(whole))


Share = Annotated[float, BeforeValidator(_share), PlainSerializer(percent, return_type=str), editor("share", _SHARE)]
