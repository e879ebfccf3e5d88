"""`python -m lakehouse_airflow.set_up`: Airflow's pools, its people and what they may do, as standard input says.

The input is JSON: {"pools": [{"name", "slots", "description"}], "people": [{"name", "role", "password"}]}; a command
line would be seen by everyone. It may be repeated: a pool that is there keeps its slots, and one who is there gets the
password and the role again.
"""

from __future__ import annotations

import json
import sys
from typing import Any

VIEWER, OPERATOR, ADMIN = "Viewer", "Operator", "Admin"


def ensure(security: Any, name: str, role: str, password: str) -> None:
    """Have this person, with this role alone and this password."""
    found, granted = security.find_user(username=name), security.find_role(role)
    if found is None:
        security.add_user(name, "Lakehouse", name.capitalize(), f"{name}@localhost", granted, password)
        return
    found.roles = [granted]
    security.update_user(found)
    security.reset_password(found.id, password)


def ensure_pool(name: str, slots: int, description: str) -> None:
    """Have this pool; how many slots it has is for those to say who run the platform."""
    from airflow.models.pool import Pool

    if Pool.get_pool(name) is None:
        Pool.create_or_update_pool(name=name, slots=slots, description=description, include_deferred=False)


def operator_permissions(security: Any) -> list[tuple[str, str]]:
    """All that Airflow's role User may but delete DAGs, and backfills; no connections, variables, pools or people."""
    from airflow.providers.fab.www.security import permissions as may

    delete_dags = (may.ACTION_CAN_DELETE, may.RESOURCE_DAG)
    run = [one for one in (*security.VIEWER_PERMISSIONS, *security.USER_PERMISSIONS) if one != delete_dags]
    changes = (may.ACTION_CAN_CREATE, may.ACTION_CAN_EDIT, may.ACTION_CAN_DELETE)
    return [*run, *((action, may.RESOURCE_BACKFILL) for action in changes)]


def main() -> None:
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

    wanted = json.load(sys.stdin)
    for pool in wanted["pools"]:
        ensure_pool(**pool)
    with get_application_builder() as builder:
        security = builder.sm
        security.bulk_sync_roles([{"role": OPERATOR, "perms": operator_permissions(security)}])
        for one in wanted["people"]:
            ensure(security, one["name"], one["role"], one["password"])


if __name__ == "__main__":
    main()
