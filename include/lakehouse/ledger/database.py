"""The ledger's tables and its connection."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Engine,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    func,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import OperationalError

from lakehouse.errors import LakehouseError
from lakehouse.ledger.columns import add_missing
from lakehouse.settings import settings

metadata = MetaData()
_Time = DateTime(timezone=True)

leases = Table(
    "leases",
    metadata,
    Column("dataset", String, primary_key=True),
    Column("owner", String, nullable=False),
    Column("attempt", String, nullable=False),
    Column("taken_at", _Time, nullable=False),
    Column("expires_at", _Time, nullable=False),
)

batches = Table(
    "batches",
    metadata,
    Column("batch_id", String, primary_key=True),
    Column("dataset", String, nullable=False),
    Column("interval_start", _Time, nullable=False),
    Column("interval_end", _Time, nullable=False),
    Column("fingerprint", String, nullable=False),
    Column("contract_version", String, nullable=False),
    Column("run", String, nullable=False),
    Column("attempt", String, nullable=False),
    Column("state", String, nullable=False),  # intent, published, discarded, undone
    Column("writes", JSONB, nullable=False),
    Column("inputs", JSONB, nullable=False),
    Column("counts", JSONB, nullable=False),
    Column("measures", JSONB, nullable=False),
    Column("intended_at", _Time, nullable=False),
    Column("published_at", _Time),
    Index("batches_by_interval", "dataset", "interval_start"),
    Index("batches_by_publish", "dataset", "published_at"),
)

inputs = Table(
    "inputs",
    metadata,
    Column("batch_id", ForeignKey("batches.batch_id", ondelete="CASCADE"), primary_key=True),
    Column("uri", Text, primary_key=True),
    Column("etag", String, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("replaces", String, nullable=False),  # the batch that took an earlier version of the file, or nothing
    Column("sha256", String, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("same_as", Text, nullable=False),  # the file that brought the same bytes before, or nothing
    Column("dataset", String, nullable=False),
    Column("malformed", BigInteger),  # records that could not be read as they came; nothing where nobody counted
    Index("inputs_by_uri", "dataset", "uri"),
    Index("inputs_by_size", "dataset", "bytes"),
    Index("inputs_corrections", "dataset", "uri", postgresql_where=text("replaces <> ''")),
)

landing_gone = Table(
    "landing_gone",
    metadata,
    Column("dataset", String, primary_key=True),
    Column("batch_id", String, primary_key=True),  # that took it
    Column("uri", Text, primary_key=True),
    Column("version", String, primary_key=True),  # the store's name of it, or nothing where it was not there any more
    Column("etag", String, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("archived_to", Text, nullable=False),  # or nothing
    Column("state", String, nullable=False),  # begun, done, absent
    Column("at", _Time, nullable=False),
    Index("landing_gone_by_uri", "uri", postgresql_ops={"uri": "text_pattern_ops"}),
)

gate_results = Table(
    "gate_results",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=True),
    Column("batch_id", String, nullable=False, index=True),
    Column("attempt", String, nullable=False),
    Column("snapshot_id", BigInteger, index=True),  # the version that was audited
    Column("gate", String, nullable=False),
    Column("definition", String),  # the same for gates that ask the same
    Column("verdict", String, nullable=False),  # passed, failed, warned
    Column("value", Float),
    Column("bound", String),
    Column("found", Text, nullable=False),
    Column("sample", JSONB),  # rows that break it
    Column("at", _Time, nullable=False),
)

rollbacks = Table(
    "rollbacks",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=True),
    Column("dataset", String, nullable=False, index=True),
    Column("moves", JSONB, nullable=False),  # each table's version before and after
    Column("undone", JSONB, nullable=False),  # batches
    Column("redone", JSONB, nullable=False),  # batches
    Column("properties", JSONB, nullable=False),
    Column("by", String, nullable=False),
    Column("why", Text, nullable=False),
    Column("state", String, nullable=False),  # intent, done, abandoned
    Column("at", _Time, nullable=False),
)

sla_promises = Table(
    "sla_promises",
    metadata,
    Column("dataset", String, primary_key=True),
    Column("kind", String, primary_key=True),
    Column("promise", Text, nullable=False),
    Column("since", _Time, nullable=False),
)

sla_misses = Table(
    "sla_misses",
    metadata,
    Column("alert_id", String, primary_key=True),
    Column("dataset", String, nullable=False),
    Column("interval_start", _Time, nullable=False),
    Column("interval_end", _Time, nullable=False),
    Column("kind", String, nullable=False),
    Column("due_at", _Time, nullable=False),
    Column("opened_at", _Time, nullable=False),
    Column("closed_at", _Time),
    Column("cause", String),
    Column("detail", Text),
    Column("root", String),  # the dataset or service that is to blame
    Column("root_interval", String),
    Column("behind", String),  # the alert that tells of this miss
    Column("freed_at", _Time),  # when what it waited behind was gone
    Column("told_at", _Time),  # when it got an alert of its own
    Column("told", JSONB),  # what only the alert says: severity, blocks, link
    UniqueConstraint("dataset", "interval_start", "kind"),
    Index("sla_misses_open", "due_at", postgresql_where=text("closed_at IS NULL")),
)

sla_mutes = Table(
    "sla_mutes",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=True),
    Column("dataset", String, nullable=False),
    Column("until", _Time, nullable=False),
    Column("why", Text, nullable=False),
    Column("by", String, nullable=False),
    Column("at", _Time, nullable=False),
    Column("ended_at", _Time),  # by hand, before its time
)

heartbeats = Table(
    "heartbeats",
    metadata,
    Column("name", String, primary_key=True),
    Column("at", _Time, nullable=False),
    Column("every_s", Float, nullable=False),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=True),
    Column("alert_id", String, nullable=False),
    Column("event", String, nullable=False),  # opened, closed
    Column("channel", String, nullable=False),
    Column("payload", JSONB, nullable=False),
    Column("created_at", _Time, nullable=False),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("next_try_at", _Time, nullable=False),
    Column("error", Text, nullable=False, server_default=""),
    Column("refused", Boolean),  # whether the channel said no to this very message
    Column("delivered_at", _Time),
    Column("failed_at", _Time),  # when it was set aside
    UniqueConstraint("alert_id", "event", "channel"),
    Index("outbox_waiting", "channel", "id", postgresql_where=text("delivered_at IS NULL")),
)

maintenance = Table(
    "maintenance",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=True),
    Column("table_name", String, nullable=False, index=True),
    Column("operation", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("before", JSONB, nullable=False),
    Column("after", JSONB, nullable=False),
    Column("outcome", String, nullable=False),  # begun, done, or what went wrong
    Column("seconds", Float, nullable=False),
    Column("at", _Time, nullable=False),
    Column("score_before", Integer),
    Column("score_after", Integer),
    Column("bytes_read", BigInteger),
    Column("bytes_written", BigInteger),
    Column("files_checked", BigInteger),  # that versions name, and that are there
    Column("detail", JSONB),  # the procedure's own counters, and files that it named
)

health = Table(
    "health",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=True),
    Column("table_name", String, nullable=False),
    Column("score", Integer, nullable=False),
    Column("parts", JSONB, nullable=False),  # of the score, each with its reason
    Column("facts", JSONB, nullable=False),  # without those of each partition
    Column("concerns", JSONB, nullable=False),  # what is past its threshold, by kind
    Column("at", _Time, nullable=False),
    Index("health_by_table", "table_name", "id"),
)

maintenance_turns = Table(
    "maintenance_turns",
    metadata,
    Column("dataset", String, primary_key=True),
    Column("begun_at", _Time, nullable=False),
    Column("ended_at", _Time),
    Column("done_at", _Time),  # when one last ended well
    Column("outcome", Text, nullable=False),  # of the last one
)

troubles = Table(
    "troubles",
    metadata,
    Column("alert_id", String, primary_key=True),
    Column("dataset", String, nullable=False),
    Column("table_name", String, nullable=False),
    Column("kind", String, nullable=False),  # what is past its threshold, or late
    Column("severity", String, nullable=False),
    Column("detail", Text, nullable=False),
    Column("due_at", _Time, nullable=False),
    Column("opened_at", _Time, nullable=False),
    Column("told_at", _Time),
    Column("closed_at", _Time),
    Index("troubles_open", "table_name", "kind", unique=True, postgresql_where=text("closed_at IS NULL")),
)

_CREATION_LOCK = 7_316_542_001
# A process that is stopped or lost in the middle must not hold what it has locked for ever.
_OPTIONS = "-c timezone=utc -c statement_timeout=60000 -c idle_in_transaction_session_timeout=120000"
# A server that has vanished is noticed, too.
_KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60000}


class LedgerUnreachable(LakehouseError, ConnectionError):
    """The ledger's database does not answer."""


def now() -> datetime:
    """The time by the ledger's own clock: one for all, whichever machine asks."""
    with engine().connect() as connection:
        return connection.execute(select(func.now())).scalar_one()


@lru_cache(maxsize=1)
def engine() -> Engine:
    """The ledger's engine; its tables are there when this returns."""
    made = create_engine(
        settings().ledger_url.get_secret_value(),
        pool_pre_ping=True,
        pool_size=2,
        connect_args={"connect_timeout": 10, "options": _OPTIONS, **_KEEPALIVE},
    )
    try:
        with made.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _CREATION_LOCK})
            add_missing(connection, metadata)
            metadata.create_all(connection)
    except OperationalError as error:
        where = made.url.render_as_string(hide_password=True)
        raise LedgerUnreachable(f"the ledger at {where} does not answer") from error
    return made
