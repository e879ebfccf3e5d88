"""An alert as receivers get it: the model, and its JSON Schema."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.json_schema import GenerateJsonSchema

from lakehouse.causes import Cause
from lakehouse.contracts.schema import Untitled
from lakehouse.contracts.sla import Severity
from lakehouse.settings import ROOT

Event = Literal["opened", "closed"]
Kind = Literal["ready", "fresh", "heartbeat", "health", "maintenance", "test"]
Reason = Literal["arrived", "withdrawn", "recovered"]
SCHEMA_FILE = ROOT / "include/docs/alert.schema.json"


class Alert(BaseModel):
    """One event of one alert. The opening and the closing event share the id; all fields are always there."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_serialization_defaults_required=True)

    version: Literal[2] = Field(2, description="Version of this schema.")
    alert_id: str = Field(description="The same for the same trouble, whoever finds it and however often it is sent.")
    event: Event = Field(description="opened, and later closed.")
    kind: Kind = Field(
        description="ready: an interval is late; fresh: a table is stale; heartbeat: the watch itself is silent; "
        "health: a table is past a threshold of its maintenance; maintenance: it is late; "
        "test: somebody tries the channels."
    )
    severity: Severity = Field(description="How bad it is, as the contract says.")
    summary: str = Field(description="One sentence: what is late, since when, by how much, why, who waits behind it.")
    cause: Cause | None = Field(None, description="Why, from a closed list; each has a runbook.")
    detail: str | None = Field(
        None, description="The last error line, the gate's numbers, what is awaited, or what was measured."
    )
    root: str | None = Field(None, description="The dataset or service at which the trouble begins.")
    blocks: tuple[str, ...] = Field((), description="Datasets that wait behind it.")
    reason: Reason | None = Field(
        None,
        description="Of a closed one: arrived, withdrawn (its contract no longer asks for it), recovered. Else null.",
    )
    dataset: str | None = Field(None, description="Such as silver.orders.")
    dag_id: str | None = Field(None, description="The dataset's DAG.")
    owner: str | None = Field(None, description="The contract's owner.")
    interval_start: datetime | None = Field(None, description="Start of the interval, included.")
    interval_end: datetime | None = Field(None, description="End of the interval, excluded.")
    due_at: datetime | None = Field(None, description="When it had to be there; of kind health: when it was measured.")
    opened_at: datetime = Field(description="When it was found.")
    closed_at: datetime | None = Field(None, description="When it was over; null while it is not.")
    late_seconds: int | None = Field(None, description="From due_at to this event.")
    link: str | None = Field(None, description="The run in the Airflow UI.")
    command: str | None = Field(None, description="The one command to try.")
    runbook: str | None = Field(None, description="The page of this cause: a URL, or its path in the repository.")

    @model_validator(mode="after")
    def _closed_is_whole(self) -> Self:
        closed = (self.reason is not None, self.closed_at is not None)
        if closed != (self.event == "closed",) * 2:
            raise ValueError("a closed alert has a reason and closed_at, an opened one has neither")
        return self


def json_schema() -> str:
    """The JSON Schema of what a webhook receives: made from the model, so that the two cannot differ."""
    made = Alert.model_json_schema(mode="serialization", schema_generator=Untitled)
    schema = {"$schema": GenerateJsonSchema.schema_dialect, **made}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
