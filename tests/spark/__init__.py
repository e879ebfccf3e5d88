"""Tests that need Spark and nothing else."""
