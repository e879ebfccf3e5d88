"""The images that the project is made of: built from its Dockerfile; what cannot be pulled is stood in for."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import yaml

from tests.containers.engine import Engine

BASE = "debian:bookworm-slim"
HERE = Path(__file__).parent
AUTHORITIES = Path("/usr/local/share/ca-certificates")
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
# Outside of /etc/ssl, which the installation of packages writes anew.
TRUST = "/opt/trust/bundle.crt"
PULL_SECONDS = 120


def image_of(project: Path, service: str) -> str:
    return str(yaml.safe_load((project / "docker-compose.yaml").read_text())["services"][service]["image"])


def ensure_images(engine: Engine, project: Path) -> None:
    """The base, our own image, and PostgreSQL's."""
    if not engine.own:
        engine.docker("compose", "build", cwd=project)
        return
    if not _pulled(engine, BASE):
        _make_base(engine)
    ours, postgres = image_of(project, "minio"), image_of(project, "postgres")
    # The host's network, as an engine of our own may have no way out of its bridges.
    engine.docker("build", "--network=host", f"--tag={ours}", ".", cwd=project)
    if not _pulled(engine, postgres):
        engine.docker("build", f"--tag={postgres}", str(HERE / "postgres"))


def _pulled(engine: Engine, image: str) -> bool:
    if engine.has(image):
        return True
    try:
        return engine.docker("pull", "--quiet", image, check=False, timeout=PULL_SECONDS).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _make_base(engine: Engine) -> None:
    """Debian's own bootstrap in place of its image, trusting whom this machine trusts."""
    with tempfile.TemporaryDirectory(prefix="bookworm-") as folder:
        root = Path(folder)
        subprocess.run(["debootstrap", "--variant=minbase", "bookworm", folder], check=True, stdout=subprocess.DEVNULL)
        (root / TRUST.lstrip("/")).parent.mkdir(parents=True)
        shutil.copy(BUNDLE, root / TRUST.lstrip("/"))
        for file in AUTHORITIES.glob("*.crt"):
            shutil.copy(file, root / str(AUTHORITIES).lstrip("/"))
        archive = root.with_suffix(".tar")
        try:
            subprocess.run(["tar", "--directory", folder, "--create", "--file", archive, "."], check=True)
            names = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
            changes = [f"--change=ENV {name}={TRUST}" for name in names]
            engine.docker("import", *changes, "--change=CMD bash", str(archive), BASE)
        finally:
            archive.unlink(missing_ok=True)
