"""The .env file: secrets are generated into it at the first start, and stay."""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from lakehouse.settings import PREFIX, ROOT, Settings, env_file, settings
from lakehouse.stack.paths import write_private


def _token() -> str:
    return secrets.token_hex(32)


def _fernet_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def _password() -> str:
    return secrets.token_urlsafe(12).replace("-", "x").replace("_", "y")


# As in make-env.sh, for machines without Python.
KINDS: dict[str, Callable[[], str]] = {
    "user": lambda: f"root-{secrets.token_hex(6)}",
    "key": lambda: f"lake{secrets.token_hex(8)}",
    "token": _token,
    "password": _password,
    "fernet": _fernet_key,
}


def _listed(text: str) -> dict[str, Callable[[], str]]:
    lines = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {setting: KINDS[kind] for setting, kind in lines}


GENERATED = _listed((ROOT / "include" / "secrets.txt").read_text(encoding="utf-8"))


def missing_secrets(known: Settings) -> dict[str, str]:
    """A fresh value for each secret of the local stack that has none."""

    def unset(name: str) -> bool:
        value = getattr(known, name)
        return not (value.get_secret_value() if hasattr(value, "get_secret_value") else value)

    return {name: make() for name, make in GENERATED.items() if unset(name)}


def ensure_secrets() -> Settings:
    """Generate what is missing into .env, and return the settings that hold it all."""
    fresh = missing_secrets(settings())
    if fresh:
        remember(fresh)
    else:
        _close(env_file())
    return settings()


def remember(values: Mapping[str, str]) -> None:
    """Set these settings in .env, keep its other lines, and have the settings read again."""
    path = env_file()
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for name, value in values.items():
        line = f"{PREFIX}{name.upper()}={value}"
        pattern = re.compile(rf"^[# ]*{PREFIX}{name.upper()}=.*$", re.MULTILINE)
        text = pattern.sub(line, text, count=1) if pattern.search(text) else f"{text.rstrip()}\n{line}\n".lstrip()
    write_private(path, text)
    settings.cache_clear()


def _close(path: Path) -> None:
    if path.exists() and path.stat().st_mode & 0o077:
        path.chmod(0o600)
