"""The Connect server's main program, run by spark-submit: Spark's Connect plugin serves while this waits.

Spark's own main program gives every session a class loader of its own. Classes that Spark generates for a query are
kept by loader: each job would generate, compile and warm up anew what the job before it had.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main() -> None:
    SparkSession.builder.getOrCreate()
    # spark-submit holds the other end: it is closed when the JVM ends, however it ends.
    sys.stdin.read()


if __name__ == "__main__":
    main()
