"""What a user is told when something cannot be done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class LakehouseError(Exception):
    """One clear sentence: what is wrong, and what to do about it. Commands print it and exit with 1."""


class Failures:
    """What failed of many things that are done one after the other: one does not keep the others from their turn."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Note what goes wrong with one of them, and go on."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # whatever it is, the others have their turn
            text = str(error) or "no more is known"
            self.told[name] = text if isinstance(error, LakehouseError) else f"{type(error).__name__}: {text}"

    def check(self) -> None:
        """Fail after all, with every name and a sentence for each."""
        if self.told:
            raise LakehouseError("; ".join(f"{name} failed: {text}" for name, text in self.told.items()))


def suggest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` where something close exists, else nothing."""
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


# How the sentence goes on when a batch was looked at and refused: on-call must know that nobody reads it.
MAIN_UNCHANGED = "main is unchanged"
