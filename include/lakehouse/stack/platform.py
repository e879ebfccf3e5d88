"""The platform's own long-running commands as services: the SLA watch, and the sample shop."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from lakehouse.roles import Role
from lakehouse.settings import Settings, env_file
from lakehouse.stack.service import Service
from lakehouse.stack.spark import script

SECONDS_TO_FAIL = 3


@dataclass(frozen=True)
class _Command(Service):
    """A `lakehouse` command that runs until it is told to stop; it is well if it did not end soon after its start."""

    stage = 3

    arguments: ClassVar[tuple[str, ...]]
    role: ClassVar[Role]

    def command(self) -> list[str]:
        return [str(script("lakehouse")), *self.arguments]

    def environment(self) -> dict[str, str]:
        home = {"LAKEHOUSE_HOME": str(self.settings.home), "LAKEHOUSE_ENV_FILE": str(env_file())}
        return {**home, "LAKEHOUSE_ROLE": self.role}

    def healthy(self, since: float) -> bool:
        return time.time() - since >= SECONDS_TO_FAIL


@dataclass(frozen=True)
class Watch(_Command):
    name = "watch"
    group = "watch"
    arguments = ("watch",)
    role = Role.TRANSFORM  # it looks at all layers


@dataclass(frozen=True)
class SampleShop(_Command):
    name = "sample"
    group = "sample"
    arguments = ("sample", "--follow")
    role = Role.ADMIN  # a source's own work: no role of the platform writes landing files


def platform_services(settings: Settings) -> list[type[Service]]:
    """Those that this installation wants."""
    return [Watch, SampleShop] if settings.sample else [Watch]
