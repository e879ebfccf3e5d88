"""Rollback: a dataset's tables go to another of their versions together, and the ledger and coverage with them."""
