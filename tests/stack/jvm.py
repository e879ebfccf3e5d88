"""What a JVM says of itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from lakehouse.stack.java import find_java


class Jvm:
    def __init__(self, pid: int) -> None:
        self.pid = pid

    def ask(self, command: str) -> str:
        tool = Path(find_java().home) / "bin" / "jcmd"
        return subprocess.run(
            [tool, str(self.pid), *command.split()], capture_output=True, text=True, check=True
        ).stdout

    def heap(self) -> float:
        """MiB in use after a collection."""
        self.ask("GC.run")
        used = re.search(r"used (\d+)K", self.ask("GC.heap_info"))
        assert used is not None
        return int(used[1]) / 1024

    def threads(self) -> int:
        return self.ask("Thread.print").count("nid=")
