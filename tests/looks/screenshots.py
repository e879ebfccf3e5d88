"""Pictures for the README, of the stack that runs: `make screenshots`.

Airflow is seen by a real browser, Debian's `chromium` or the one that CHROMIUM names; commands by a terminal.
"""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from lakehouse.airflow_api import AirflowApi
from lakehouse.settings import ROOT, Settings, settings

IMAGES = ROOT / "include" / "docs" / "images"
SIZE = {"width": 1440, "height": 860}
DAG = "silver_orders"
COMMANDS = {
    "status": ["status"],
    "health": ["health"],
}
COLUMNS = 132


@contextmanager
def browser(given: Settings) -> Iterator[Callable[[str], object]]:
    """Opens pages of Airflow as its first user."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not program:
        sys.exit("make screenshots: there is no Chromium: `apt install chromium`, or name it in CHROMIUM.")
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        context = opened.new_context(viewport=SIZE, color_scheme="light", timezone_id="UTC")
        login = {"username": given.airflow_user, "password": given.airflow_password.get_secret_value()}
        token = context.request.post(f"{given.airflow_url}/auth/token", data=login).json()["access_token"]
        context.add_cookies([{"name": "_token", "value": token, "url": given.airflow_url}])
        context.add_init_script("localStorage.setItem('default_dag_view', JSON.stringify('graph'))")
        page = context.new_page()
        page.set_default_timeout(60_000)
        yield page
        opened.close()


def newest_run(given: Settings) -> str:
    """The newest run of the DAG that succeeded."""
    with AirflowApi(given) as api:
        runs = api.runs(DAG, date.min, date.max)
    return max((run for run in runs if run.state == "success"), key=lambda run: run.day).run_id


def airflow(given: Settings) -> None:
    """The DAGs, one as a graph, what its docs say, and the log of a step."""
    with browser(given) as page:

        def shot(name: str, path: str, *wait_for: str, click: str | None = None) -> None:
            page.goto(f"{given.airflow_url}{path}")
            for text in wait_for:
                page.get_by_text(text).first.wait_for()
            if click:
                page.get_by_role("button", name=click).first.click()
            page.wait_for_load_state("networkidle")
            page.screenshot(path=str(IMAGES / f"{name}.png"), animations="disabled")
            print(f"{name}.png")

        run = newest_run(given)
        shot("airflow-dags", "/dags", "silver_orders", "gold_daily_sales")
        shot("airflow-docs", f"/dags/{DAG}", "wait", click="Dag Docs")
        shot("airflow-log", f"/dags/{DAG}/runs/{run}/tasks/publish", "published")


def terminal(given: Settings) -> None:
    """Commands as a terminal shows them, in colour."""
    for name, arguments in COMMANDS.items():
        console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
        console.print(Text(f"$ lakehouse {' '.join(_quoted(one) for one in arguments)}", style="bold"))
        console.print(Text.from_ansi(typed(arguments)))
        svg = console.export_svg(title="lakehouse", theme=MONOKAI, unique_id=f"lakehouse-{name}")
        (IMAGES / f"terminal-{name}.svg").write_text(svg)
        print(f"terminal-{name}.svg")


def typed(arguments: list[str]) -> str:
    """What a command writes to a terminal."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "LINES": "60", "TERM": "xterm-256color"}
    program = Path(sys.executable).with_name("lakehouse")
    with subprocess.Popen([program, *arguments], stdout=follower, stderr=follower, env=environment) as running:
        os.close(follower)
        said = b""
        while piece := _read(leader):
            said += piece
    os.close(leader)
    if running.returncode not in (0, 1):
        sys.exit(f"make screenshots: lakehouse {' '.join(arguments)} failed: {said.decode()}")
    return said.decode().replace("\r\n", "\n").rstrip()


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 1 << 16)
    except OSError:  # the other end is closed
        return b""


def _quoted(argument: str) -> str:
    return f'"{argument}"' if " " in argument else argument


if __name__ == "__main__":
    terminal(settings())
    airflow(settings())
