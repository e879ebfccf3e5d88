"""`lakehouse watch`: evaluate the SLAs, and tell on-call."""

from __future__ import annotations

import logging
import signal
import threading
from typing import Annotated

import typer

from lakehouse import watch as watching


def watch(once: Annotated[bool, typer.Option("--once", help="Look once and leave, for cron.")] = False) -> None:
    """Evaluate the SLAs, and tell on-call what is late."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each request would hide the alerts
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    watching.watch(once, stop)
