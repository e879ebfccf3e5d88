"""Names: made in one place, and the same for the same work."""

from datetime import UTC, datetime, timedelta, timezone

from lakehouse import naming
from lakehouse.intervals import Interval

DAY = Interval(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
BATCH = naming.batch_id("silver.orders", DAY, "inputs")


def test_the_same_work_has_the_same_batch_id():
    zone = timezone(timedelta(hours=9))
    same = Interval(DAY.start.astimezone(zone), DAY.end.astimezone(zone))
    assert naming.batch_id("silver.orders", same, "inputs") == BATCH


def test_other_work_has_another_batch_id():
    longer = Interval(DAY.start, DAY.end + timedelta(hours=1))
    others = {
        naming.batch_id("silver.order", DAY, "inputs"),
        naming.batch_id("silver.orders", longer, "inputs"),
        naming.batch_id("silver.orders", DAY, "more inputs"),
    }
    assert len(others | {BATCH}) == 4


def test_a_batch_id_tells_dataset_and_time():
    assert BATCH.startswith("silver_orders-20260101T000000-")


def test_each_try_has_a_branch_of_its_own():
    tries = [naming.attempt_id("run", 1), naming.attempt_id("run", 2), naming.attempt_id("run", 1, redone=1)]
    branches = {naming.branch("silver.orders", DAY, BATCH, attempt) for attempt in tries}
    assert len(branches) == 3
    assert all(branch.startswith(naming.AUDIT_BRANCH) and branch.isidentifier() for branch in branches)


def test_a_later_try_can_derive_its_predecessors_session():
    first = naming.spark_session_id(naming.attempt_id("run", 1), "clean")
    assert first == naming.spark_session_id(naming.attempt_id("run", 1), "clean")
    assert first != naming.spark_session_id(naming.attempt_id("run", 2), "clean")
    assert first != naming.spark_session_id(naming.attempt_id("run", 1), "audit")


def test_no_identifier_can_end_its_quotes():
    assert naming.quoted("a", "b`; DROP TABLE c") == "`a`.`b``; DROP TABLE c`"


def test_a_branch_is_written_as_a_part_of_its_table():
    assert naming.table_sql("silver.orders") == "`lake`.`silver`.`orders`"
    assert naming.table_sql("silver.orders", "audit_x") == "`lake`.`silver`.`orders`.`branch_audit_x`"


def test_a_dataset_owns_its_companions():
    assert naming.tables_of("bronze.orders") == ("bronze.orders",)
    assert naming.tables_of("silver.orders") == (
        "silver.orders",
        "quarantine.silver_orders",
        "ops.silver_orders_deleted",
        "silver.orders_changes",
    )


def test_a_digest_does_not_depend_on_the_order_of_keys():
    assert naming.digest({"a": 1, "b": 2}) == naming.digest({"b": 2, "a": 1})


def test_a_jobs_result_is_beside_its_document_and_never_the_same():
    job = naming.job_key("silver.orders", "run#1", "clean")
    assert naming.result_key(job) != job
    assert naming.result_key(job).rpartition("/")[0] == job.rpartition("/")[0]
