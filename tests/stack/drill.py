"""The stage of the incident drill: its scenes, and what can be done to the stack that they play on."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import psutil

from lakehouse import naming
from lakehouse.airflow_api import AirflowApi
from lakehouse.intervals import Interval
from lakehouse.ledger import sla as ledger
from lakehouse.ledger.database import engine, sla_misses
from lakehouse.settings import settings
from lakehouse.stack.supervision import Supervisor
from lakehouse.store import client
from tests.receiver import Receiver
from tests.stack.harness import LAKEHOUSE, eventually

AIRFLOW = ("airflow-api-server", "airflow-dag-processor", "airflow-scheduler", "airflow-triggerer")
# New contracts become DAGs within half a minute; a busy machine takes longer.
AHEAD = timedelta(seconds=130)
ANY = """
description: A dataset of the drill.
owner: drill
schedule: "{end:%M} {end:%H} * * *"
start: {start:%Y-%m-%d}
end: {end:%Y-%m-%d}
sla: {{ready_within: {within}, severity: {severity}}}
retention: {{snapshots: 7d}}
maintenance: {{tier: weekly}}
"""
BRONZE = f"""{ANY}
dataset: bronze.{{name}}
source: {{{{kind: files, path: "{{name}}/{{{{interval:%Y-%m-%d}}}}/"}}}}
{{more}}
"""
SILVER = f"""{ANY}
dataset: silver.{{name}}
reads: {{reads}}
delivers: events
columns:
  id: {{{{type: bigint, required: true, from: id}}}}
  {{more}}
"""
BROKEN = "boom: {type: string, expr: no_such_function(id)}"
GATE = "gates: [{row_count: {at_least: 1000}}]"


def minute(ahead: timedelta) -> datetime:
    """The first whole minute that is at least that far ahead."""
    moment = datetime.now(UTC) + ahead + timedelta(minutes=1)
    return moment.replace(second=0, microsecond=0)


@dataclass
class Scene:
    """One dataset of the drill, and the alert that it should give: its cause and root, or none."""

    number: int
    trouble: str
    dataset: str
    end: datetime
    expected: tuple[str, str] | None
    taken: list[dict] = field(default_factory=list)

    @property
    def name(self) -> str:
        return naming.short_name(self.dataset)

    @property
    def interval(self) -> Interval:
        return Interval(self.end - timedelta(days=1), self.end)

    @property
    def dag(self) -> str:
        return naming.dag_id(self.dataset)

    @property
    def opened(self) -> list[dict]:
        return [alert for alert in self.taken if alert["event"] == "opened"]


class Drill:
    """The stage: contracts, landing files, Airflow, and what the receiver got."""

    def __init__(self, running, api: AirflowApi, receiver: Receiver) -> None:
        self.running, self.api, self.receiver = running, api, receiver
        self.mark = f"d{uuid4().hex[:5]}"
        self.scenes: list[Scene] = []
        self.supervisor = Supervisor(settings())

    def write(
        self,
        scene: Scene,
        *,
        within: str = "20s",
        severity: str = "warning",
        reads: str = "",
        more: str = "",
    ) -> Scene:
        layer = naming.layer_of(scene.dataset)
        text = (SILVER if reads else BRONZE).format(
            name=scene.name,
            start=scene.end - timedelta(days=1),
            end=scene.end,
            within=within,
            severity=severity,
            reads=reads,
            more=more,
        )
        file: Path = settings().contracts / layer / f"{scene.name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return scene

    def scene(
        self, number: int, trouble: str, dataset: str, end: datetime, cause: str = "", root: str = "", **contract: str
    ) -> Scene:
        full = f"{dataset}_{self.mark}"
        expected = (cause, root or full) if cause else None
        made = Scene(number, trouble, full, end, expected)
        self.scenes.append(self.write(made, **contract))
        return made

    def deliver(self, scene: Scene, *, day: date | None = None) -> None:
        folder = f"{scene.name}/{day or scene.interval.start.date()}"
        client().put_object(Bucket="landing", Key=f"{folder}/part.jsonl", Body=b'{"id": 1}\n{"id": 2}\n')
        client().put_object(Bucket="landing", Key=f"{folder}/_SUCCESS", Body=b"")

    def switch_on(self, *scenes: Scene) -> None:
        """Wait until the scenes' DAGs are there, and unpause them."""
        wanted = {scene.dag for scene in scenes}
        eventually(lambda: wanted <= self.api.dags(), 240, "Airflow shows the drill's DAGs")
        for dag in sorted(wanted):
            self.api.unpause(dag)

    def promised(self, *scenes: Scene) -> None:
        """Wait until the watch has seen the scenes' promises: what fell due before that is nobody's miss."""
        wanted = {scene.dataset for scene in scenes}
        eventually(lambda: wanted <= {name for name, _ in ledger.agreed()}, 120, "the watch knows the promises")

    def told(self) -> dict[str, tuple[str, str]]:
        """The alerts that were made, by dataset: cause and root. From the ledger: the receiver may be down."""
        with engine().connect() as connection:
            rows = connection.execute(sla_misses.select().where(sla_misses.c.told_at.is_not(None))).all()
        return {row.dataset: (row.cause, row.root) for row in rows if row.dataset.endswith(self.mark)}

    def await_told(self, *scenes: Scene, seconds: float) -> None:
        wanted = {scene.dataset for scene in scenes}
        try:
            eventually(lambda: wanted <= set(self.told()), seconds, "the alerts are made")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.told()} of {sorted(wanted)}{self.running.last_lines()}") from None

    def state(self, scene: Scene, task: str) -> str | None:
        run = self.api.run_at(scene.dag, scene.interval.start)
        return next((one.state for one in self.api.tasks(run) if one.task_id == task), None) if run else None

    def run_command(self, line: str, *more: str) -> str:
        """What an alert says to type."""
        command = shlex.split(line)
        assert command[0] == "lakehouse"
        done = subprocess.run(
            [LAKEHOUSE, *command[1:], *more],
            env={**os.environ, **self.running.environment},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def hold(self, service: str) -> psutil.Process:
        """Hold a service and all it started, as a machine that is out of memory would."""
        process = psutil.Process(self.running.pid(service))
        for one in (process, *process.children(recursive=True)):
            one.send_signal(signal.SIGSTOP)
        return process

    def let_go(self, process: psutil.Process) -> None:
        for one in (*process.children(recursive=True), process):
            one.send_signal(signal.SIGCONT)

    def restart_airflow(self) -> None:
        for service in AIRFLOW:
            self.supervisor.stop(service)
        self.running.lakehouse("up", "--only", "airflow")

    def sort(self) -> None:
        """Give each scene what the receiver took of it."""
        for scene in self.scenes:
            scene.taken = [alert for alert in self.receiver.taken if alert["dataset"] == scene.dataset]
