"""What a supervised service is: how to start it, how to tell that it works, and what to do before and after."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from lakehouse.settings import Settings

HOST = "127.0.0.1"
# In the environment of every process of a stack, naming its home: how strays are found.
MARKER = "LAKEHOUSE_SUPERVISED"


@dataclass(frozen=True)
class Service(ABC):
    """One process under supervisor. Services of one stage start together, once all earlier stages are healthy."""

    settings: Settings

    name: ClassVar[str]
    group: ClassVar[str]
    stage: ClassVar[int]
    stop_signal: ClassVar[str] = "TERM"
    patience: ClassVar[int] = 120
    refuses_root: ClassVar[bool] = False

    def ports(self) -> dict[str, int]:
        """Ports it listens on, by the setting that chooses each."""
        return {}

    @abstractmethod
    def command(self) -> list[str]:
        """The program and its arguments; never a secret."""

    def environment(self) -> dict[str, str]:
        """Variables for this process alone, secrets among them."""
        return {}

    def prepare(self) -> None:
        """Make what must be there before the process starts; harmless to repeat."""

    def tidy(self) -> None:
        """Clear away what a killed predecessor left; runs in the service's own process at every start and restart."""

    def settle(self) -> None:
        """Make what needs the running service, as databases or buckets; harmless to repeat."""

    @abstractmethod
    def healthy(self, since: float) -> bool:
        """Whether it answers properly, given when its process started (seconds since the epoch); never raises."""

    def address(self) -> str:
        """Where people find it."""
        return next((f"{HOST}:{port}" for port in self.ports().values()), "")
