"""Errors as one sentence: what on-call reads is the last line, not a JVM's stack."""

from __future__ import annotations

import re
import traceback

import grpc

from lakehouse.identities import acting
from lakehouse.settings import settings

_RAISED = re.compile(r"^(?:\w+\.)+\w+: (.+)$", re.MULTILINE)


def one_sentence(error: BaseException) -> str:
    """What went wrong, in one line, naming the service where one did not answer."""
    text = str(error).strip() or type(error).__name__
    if re.search(r"INVALID_HANDLE\.(SESSION|OPERATION)|NO_ACTIVE_SESSION", text):
        return f"error: Spark at {settings().spark_remote} was restarted in the middle of the job"
    if isinstance(error, grpc.RpcError) or "UNAVAILABLE" in text[:500]:
        return f"error: Spark at {settings().spark_remote} does not answer"
    for service, address in (("catalog", settings().catalog_uri), ("object store", settings().s3_endpoint)):
        if address.split("://")[-1] in text and re.search(r"refused|timed? ?out|unreachable", text, re.IGNORECASE):
            return f"error: the {service} at {address} does not answer"
    if "AccessDeniedException" in text:
        return f"error: the object store at {settings().s3_endpoint} refuses: role {acting()} may not do that"
    mine = text.split("JVM stacktrace", 1)[0]
    # What a reader on an executor raised stands at the end of the Python worker's own trace.
    raised = _RAISED.findall(mine) if "Python worker" in mine else []
    return f"error: {_shortened(raised[-1] if raised else mine.split(chr(10), 1)[0])}"


def trace(error: BaseException) -> str:
    """Where in our code it happened; the JVM's own stack is in the server's log."""
    text = "".join(traceback.format_exception(error))
    return text.split("JVM stacktrace", 1)[0].rstrip()


def _shortened(text: str, most: int = 600) -> str:
    return text if len(text) <= most else text[:most] + "…"
