"""The .env file: secrets are generated into it at the first start, and stay."""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from lakehouse.settings import PREFIX, ROOT, Settings, env_file, is_local, settings
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


_OF_A_ROLE = re.compile(r"(s3|catalog|airflow)_(ingest|transform|maintenance|reader|operator|viewer)_\w+")
GENERATED = _listed((ROOT / "include" / "secrets.txt").read_text(encoding="utf-8"))


def missing_secrets(known: Settings) -> dict[str, str]:
    """A fresh value for each secret of the local stack that has none."""

    def unset(name: str) -> bool:
        value = getattr(known, name)
        return not (value.get_secret_value() if hasattr(value, "get_secret_value") else value)

    return {name: make() for name, make in GENERATED.items() if unset(name) and not _foreign(known, name)}


def _foreign(known: Settings, name: str) -> bool:
    """Whether it is for somebody else's store, catalog or Airflow: these may know one key only, and none made here."""
    addresses = {
        "s3": (known.s3_endpoint, known.minio_port),
        "catalog": (known.catalog_uri, known.catalog_port),
        "airflow": (known.airflow_url, known.airflow_port),
    }
    found = _OF_A_ROLE.fullmatch(name)
    return found is not None and not is_local(*addresses[found[1]])


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
        text = _with_line(text, f"{PREFIX}{name.upper()}", line)
    write_private(path, text)
    settings.cache_clear()


def _with_line(text: str, name: str, line: str) -> str:
    """In place of the last line that sets it, which is the one that counts; else of a comment that shows it."""
    for start in (r"\s*(?:export\s+)?", r"[# ]*"):
        if found := list(re.finditer(rf"^{start}{name}=.*$", text, re.MULTILINE)):
            return f"{text[: found[-1].start()]}{line}{text[found[-1].end() :]}"
    return f"{text.rstrip()}\n{line}\n".lstrip()


def _close(path: Path) -> None:
    if path.exists() and path.stat().st_mode & 0o077:
        path.chmod(0o600)
