"""Where the local stack keeps its state, all under `settings.home`."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from lakehouse.errors import LakehouseError
from lakehouse.settings import Settings

# sun_path holds 108 bytes on Linux and 104 on macOS, the closing zero among them.
SOCKET_LIMIT = 100


def logs(settings: Settings) -> Path:
    return settings.home / "logs"


def log_file(settings: Settings, service: str) -> Path:
    return logs(settings) / f"{service}.log"


def socket_file(settings: Settings) -> Path:
    """Supervisor's socket: in the stack's home, or in a private folder with a short name if that path is too long."""
    usual = settings.home / "run" / "supervisor.sock"
    if len(os.fsencode(usual)) <= SOCKET_LIMIT:
        return usual
    digest = hashlib.sha256(os.fsencode(settings.home)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"lakehouse-{os.getuid()}-{digest}" / "supervisor.sock"


def make_private(folder: Path) -> Path:
    """Create a folder that only this user may enter; refuse one that belongs to somebody else."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise LakehouseError(f"{folder} belongs to another user: remove it, or set LAKEHOUSE_HOME to another folder.")
    folder.chmod(0o700)
    return folder


def write_private(path: Path, text: str) -> None:
    """Replace a file at once by one that only this user can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.touch(mode=0o600)
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
