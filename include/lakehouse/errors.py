"""What a user is told when something cannot be done."""

from __future__ import annotations


class LakehouseError(Exception):
    """One clear sentence: what is wrong, and what to do about it. Commands print it and exit with 1."""


# How the sentence goes on when a batch was looked at and refused: on-call must know that nobody reads it.
MAIN_UNCHANGED = "main is unchanged"
