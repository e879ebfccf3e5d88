"""The Connect server's main program, run by spark-submit: Spark's Connect plugin serves while this waits.

Spark's own main program gives every session a class loader of its own. Classes that Spark generates for a query are
kept by loader: each job would generate, compile and warm up anew what the job before it had.
"""

from __future__ import annotations

import select
import sys

from pyspark.sql import SparkSession


def main() -> str:
    context = SparkSession.builder.getOrCreate().sparkContext
    # spark-submit holds the other end: it is closed when the JVM ends, however it ends.
    while not select.select([sys.stdin], [], [], 2)[0]:
        if context._jsc.sc().isStopped():
            break
    return "Spark has stopped"


if __name__ == "__main__":
    sys.exit(main())
