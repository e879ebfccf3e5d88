"""`.lakehouse/env`: what a shell sources to have airflow, spark-submit and lakehouse at hand, as the stack has them.

The file holds no secret of .env: it asks this module, which prints to the shell that evaluates it.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from lakehouse.settings import PREFIX, Settings, env_file, environment, settings
from lakehouse.stack.airflow_env import airflow_environment
from lakehouse.stack.paths import write_private


def write_env_file(known: Settings) -> Path:
    """Write .lakehouse/env, with those settings that `up` found in its environment rather than in .env."""
    path = known.home / "env"
    given = {name: value for name, value in environment().items() if name.startswith(PREFIX)}
    given |= {"LAKEHOUSE_HOME": str(known.home), "LAKEHOUSE_ENV_FILE": str(env_file())}
    lines = [
        "# Source this: it puts airflow, spark-submit and lakehouse on the PATH, with this stack's settings.",
        *exports(given),
        f'eval "$({shlex.quote(sys.executable)} -m lakehouse.stack.shell)"',
    ]
    write_private(path, "\n".join(lines) + "\n")
    return path


def exports(values: dict[str, str]) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in sorted(values.items())]


if __name__ == "__main__":
    print("\n".join(exports(airflow_environment(settings()))))
