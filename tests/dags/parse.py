"""Parses the project's DAG files as Airflow's DAG processor does, without a database, and tells what it found as JSON.

A program of its own, so that each parse begins with nothing imported and with the environment that it is given.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RUNS = 60


def main() -> None:
    connects: list[str] = []
    sys.addaudithook(lambda event, args: connects.append(str(args[1])) if event == "socket.connect" else None)
    from airflow.dag_processing.dagbag import DagBag
    from airflow.serialization.serialized_objects import DagSerialization

    logging.disable()
    if sys.argv[1:] == ["nothing"]:  # for comparison: all of Airflow that parsing needs, and no DAG file
        return
    if sys.argv[1:] == ["files"]:  # what the DAG processor does each time, and nothing else
        print(len([DagSerialization.to_dict(dag) for dag in DagBag(ROOT / "dags").dags.values()]))
        return
    before = set(sys.modules)
    bag = DagBag(ROOT / "dags", bundle_path=ROOT / "dags")
    imported = sorted(set(sys.modules) - before)
    serialized = {name: DagSerialization.to_dict(dag) for name, dag in bag.dags.items()}
    found = {
        "files": {str(Path(stat.file).name): stat.dag_num for stat in bag.dagbag_stats},
        "errors": {Path(file).name: message for file, message in bag.import_errors.items()},
        "dags": {name: given["dag"] for name, given in serialized.items()},
        "intervals": {name: intervals(DagSerialization.from_dict(given)) for name, given in serialized.items()},
        "imported": imported,
        "connects": connects,
    }
    print(json.dumps(found, default=str))


def intervals(dag: Any) -> list[tuple[str, str]]:
    """The intervals that the scheduler would run, the first of them if there is no last."""
    found: list[tuple[str, str]] = []
    info = dag.next_dagrun_info(last_automated_run_info=None)
    while info is not None and len(found) < RUNS:
        found.append((info.data_interval.start.isoformat(), info.data_interval.end.isoformat()))
        info = dag.next_dagrun_info(last_automated_run_info=info)
    return found


if __name__ == "__main__":
    main()
