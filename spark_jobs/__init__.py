"""Spark jobs: each takes a job document from the object store, does one thing and answers beside it."""
