"""`airflow dags backfill`: makes a backfill on Airflow's database, follows it, and exits by its outcome."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from airflow.api_fastapi.common.dagbag import resolve_run_on_latest_version
from airflow.models.backfill import (
    Backfill,
    BackfillDagRun,
    NoBackfillRunsToCreate,
    ReprocessBehavior,
    _create_backfill,
    _do_dry_run,
)
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.sdk.exceptions import AirflowException
from airflow.utils.cli import action_cli, suppress_logs_and_warning
from airflow.utils.platform import getuser
from airflow.utils.providers_configuration_loader import providers_configuration_loaded
from airflow.utils.session import create_session
from rich.console import Console
from rich.table import Table
from sqlalchemy import and_, select

from lakehouse.errors import LakehouseError
from lakehouse_airflow.backfill_gone import refuse
from lakehouse_airflow.backfill_request import GONE, Day, Refused, Request, finished, progress, verdict

POLL_SECONDS = 2.0
# The scheduler marks a backfill as complete within half a minute of its last run's end.
MOST_SECONDS_TO_COMPLETE = 90.0
INTERRUPTED = 130
_UNFINISHED = ("queued", "running")


@action_cli  # type: ignore[untyped-decorator]
@suppress_logs_and_warning
@providers_configuration_loaded
def backfill(args: Namespace) -> None:
    """Make the runs, follow them, and exit with 0 when all have succeeded; refusals are one sentence."""
    try:
        refuse(args)
        dag = _dag(args.dag_id)
        request = Request.of(args, dag.timezone)
        if args.dry_run:
            days = [Day(info.logical_date, "would run") for info in _planned(request)]
            _show(days, dag.timezone)
            print(f"{len(days)} runs would be made; nothing was started")
            return
        _check(request, confirmed=args.yes)
        made = _make(request, dag.max_active_runs)
    except (LakehouseError, NoBackfillRunsToCreate, AirflowException) as refusal:
        sys.exit(f"airflow dags backfill: {refusal}")
    days = _follow(request.dag_id, made)
    _show(days, dag.timezone)
    wrong = verdict([_local(day, dag.timezone) for day in days])
    if wrong:
        sys.exit(f"airflow dags backfill: {wrong}")


def _dag(dag_id: str) -> Any:
    with create_session() as session:
        newest: Any = SerializedDagModel
        found = session.scalar(newest.latest_item_select_object(dag_id))
        if found is None:
            raise Refused(f"there is no DAG '{dag_id}'; `airflow dags list` shows those there are")
        return found.dag


def _planned(request: Request) -> list[Any]:
    with create_session() as session:
        return list(
            _do_dry_run(
                dag_id=request.dag_id,
                from_date=request.first,
                to_date=request.last,
                reverse=request.backwards,
                reprocess_behavior=ReprocessBehavior(request.reprocess),
                dag_run_conf=request.conf,
                session=session,
            )
        )


def _check(request: Request, confirmed: bool) -> None:
    """Refuse what would never start, and ask before runs that have ended are run again."""
    _refuse_paused(request.dag_id)
    _refuse_second(request.dag_id)
    if request.reprocess == "completed" and not confirmed:
        _confirm(f"Run {len(_planned(request))} days of {request.dag_id} again, also those that succeeded? [y/N] ")


def _refuse_paused(dag_id: str) -> None:
    with create_session() as session:
        if session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag_id)):
            raise Refused(f"{dag_id} is paused, so nothing would run; first: airflow dags unpause {dag_id}")


def _refuse_second(dag_id: str) -> None:
    """Refuse while another backfill of the DAG has work to do; wait for one that has only to be marked as complete."""
    until = time.monotonic() + MOST_SECONDS_TO_COMPLETE
    while (running := _running(dag_id)) is not None:
        number, at_work = running
        if at_work:
            raise Refused(f"backfill {number} of {dag_id} is still running, and a DAG has one at a time; wait for it")
        if time.monotonic() > until:
            raise Refused(
                f"backfill {number} of {dag_id} has ended, but the scheduler has not closed it; is it running?"
            )
        time.sleep(POLL_SECONDS)


def _running(dag_id: str) -> tuple[int, bool] | None:
    """The DAG's backfill that is not complete, and whether it has unfinished runs."""
    with create_session() as session:
        number = session.scalar(select(Backfill.id).where(Backfill.dag_id == dag_id, Backfill.completed_at.is_(None)))
        if number is None:
            return None
        unfinished = select(DagRun.id).where(DagRun.backfill_id == number, DagRun.state.in_(_UNFINISHED)).limit(1)
        return number, session.scalar(unfinished) is not None


def _confirm(question: str) -> None:
    try:
        answer = input(question)
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise Refused("nothing was done; say yes, or pass -y")


def _make(request: Request, at_a_time: int) -> int:
    with create_session() as session:
        latest = resolve_run_on_latest_version(None, request.dag_id, session, fallback=True)
    made = _create_backfill(
        dag_id=request.dag_id,
        from_date=request.first,
        to_date=request.last,
        max_active_runs=request.max_active_runs or at_a_time,
        reverse=request.backwards,
        dag_run_conf=request.conf,
        triggering_user_name=getuser(),
        reprocess_behavior=ReprocessBehavior(request.reprocess),
        run_on_latest_version=latest,
    )
    return int(made.id)


def _follow(dag_id: str, number: int) -> list[Day]:
    """Tell each change until every day has ended. Ctrl-C ends the telling, not the backfill."""
    said = ""
    try:
        while True:
            days, paused = _days(dag_id, number)
            line = progress(days) + (f" ({dag_id} was paused: it goes on when unpaused)" if paused else "")
            if line != said:
                print(f"{datetime.now():%H:%M:%S} backfill {number} of {dag_id}: {line}", flush=True)  # noqa: DTZ005
                said = line
            if finished(days):
                return days
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        look = f"airflow dags list-runs {dag_id}, or the DAG's page in the UI, where it can be cancelled"
        print(f"\nbackfill {number} goes on; look at it with {look}", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _days(dag_id: str, number: int) -> tuple[list[Day], bool]:
    """The backfill's days with the state of each day's run, whoever made that run; and whether the DAG is paused."""
    same_day = and_(DagRun.dag_id == dag_id, DagRun.logical_date == BackfillDagRun.logical_date)
    statement = (
        select(BackfillDagRun.logical_date, BackfillDagRun.exception_reason, DagRun.state, DagRun.run_id)
        .join(DagRun, same_day, isouter=True)
        .where(BackfillDagRun.backfill_id == number)
        .order_by(BackfillDagRun.logical_date)
    )
    with create_session() as session:
        paused = bool(session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag_id)))
        rows = session.execute(statement).all()
    return [Day(day, str(state or GONE), run or "", reason or "") for day, reason, state, run in rows], paused


def _local(day: Day, zone: Any) -> Day:
    return Day(day.logical_date.astimezone(zone), day.state, day.run_id, day.skipped)


def _show(days: Sequence[Day], zone: Any) -> None:
    table = Table("day", "state", "run", "not made because")
    for day in (_local(one, zone) for one in days):
        table.add_row(day.name, day.state, day.run_id, day.skipped)
    Console().print(table)
