"""Processes of a stack that supervisord no longer looks after: it was killed, or they were left by a killed parent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import psutil

from lakehouse.settings import Settings
from lakehouse.stack.service import MARKER

SECONDS_TO_END = 15


def members(settings: Settings) -> list[psutil.Process]:
    """Every process of this stack, supervisord included, whoever its parent is now."""
    return [*{process.pid: process for process in (*_marked(settings), *_postgres(settings))}.values()]


def end(settings: Settings) -> int:
    """End what is left, politely first; return how many there were."""
    left = members(settings)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, stubborn = psutil.wait_procs(left, SECONDS_TO_END)
    for process in stubborn:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, SECONDS_TO_END)
    return len(left)


def _marked(settings: Settings) -> Iterator[psutil.Process]:
    me = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    for process in psutil.process_iter():
        try:
            if process.pid not in me and process.environ().get(MARKER) == str(settings.home):
                yield process
        except (psutil.Error, OSError):
            continue


def _postgres(settings: Settings) -> Iterator[psutil.Process]:
    """PostgreSQL overwrites the memory in which its environment is read; its own pid file names it."""
    try:
        pid = int((settings.home / "postgres" / "postmaster.pid").read_text().splitlines()[0])
        process = psutil.Process(pid)
        if process.name() == "postgres" and str(settings.home) in " ".join(process.cmdline()):
            yield process
            yield from process.children(recursive=True)
    except (OSError, ValueError, IndexError, psutil.Error):
        return
