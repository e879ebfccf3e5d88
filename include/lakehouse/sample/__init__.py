"""Sample data: a synthetic shop whose landing files are the same on every machine, with dirt switched on by name."""

from lakehouse.sample.corrections import corrected
from lakehouse.sample.delivery import FolderStore, LandingStore, Store, deliver, deliver_days, follow
from lakehouse.sample.generator import generate
from lakehouse.sample.recipe import DEFAULT_DIRT, DIRT, DRIFT_FROM, Recipe

__all__ = [
    "DEFAULT_DIRT",
    "DIRT",
    "DRIFT_FROM",
    "FolderStore",
    "LandingStore",
    "Recipe",
    "Store",
    "corrected",
    "deliver",
    "deliver_days",
    "follow",
    "generate",
]
