"""What counts of files that were corrected, repeated and swapped is what landing holds in the end, each once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from lakehouse.batch import Corrections
from lakehouse.corrected import Version, corrections_of


@dataclass
class Ingested:
    """Landing files and what bronze made of them: the rows of a file are one row here, its bytes one letter."""

    landing: dict[str, str] = field(default_factory=dict)
    taken: list[dict[str, str]] = field(default_factory=list)
    rows: list[tuple[str, str, str]] = field(default_factory=list)  # batch, name, bytes

    def run(self, **delivered: str) -> Ingested:
        """One batch; what has the bytes of a file in force, as the ingest job finds it, is noted and left out."""
        changed = {name: data for name, data in delivered.items() if self.landing.get(name) != data}
        batch = f"b{len(self.taken) + 1}"
        in_force = {data: name for name, data in sorted(self.landing.items(), reverse=True) if name not in changed}
        for name, data in sorted(changed.items()):
            before = next((one for one in reversed(self.taken) if one["uri"] == name), {"batch_id": ""})
            same_as = in_force.setdefault(data, name)
            same_as = "" if same_as == name else same_as
            self.rows += [] if same_as else [(batch, name, data)]
            one = {"batch_id": batch, "uri": name, "sha256": data, "same_as": same_as, "replaces": before["batch_id"]}
            self.taken.append(one)
        self.landing |= changed
        return self

    def corrections(self) -> Corrections:
        later = Counter(one["uri"] for one in self.taken)
        versions = []
        for one in self.taken:
            versions.append(Version(**one, age=later[one["uri"]]))
            later[one["uri"]] -= 1
        return corrections_of(versions)

    def counting(self) -> list[tuple[str, str]]:
        """Name and bytes of the rows that count, as a clean job reads them."""
        found = self.corrections()
        heirs = {(batch, name): heir for batch, name, heir in found.inherited}
        counting = [row for row in self.rows if row[:2] not in found.dropped]
        return [(heirs.get((batch, name), name), data) for batch, name, data in counting]

    def is_right(self) -> bool:
        found = self.counting()
        contents = sorted(data for _, data in found)
        return contents == sorted(set(self.landing.values())) and all(
            self.landing[name] == data for name, data in found
        )


def test_a_file_that_took_anothers_bytes_keeps_their_rows_when_that_one_is_corrected():
    """Also where both came in one batch at first: the heir has a replaced version of its own there."""
    swapped = Ingested().run(a="X", b="Y").run(a="Y").run(b="Z")
    assert sorted(swapped.counting()) == [("a", "Y"), ("b", "Z")]


def test_a_repeat_stands_for_the_version_that_it_was_noted_for_not_for_an_older_one_of_that_name():
    returned = Ingested().run(a="X").run(a="Y").run(a="X").run(c="X").run(a="Z")
    assert sorted(returned.counting()) == [("a", "Z"), ("c", "X")]


def test_files_that_take_each_others_bytes_in_one_batch_both_count():
    assert Ingested().run(a="X", b="Y").run(a="Y", b="X").is_right()


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_corrected_repeated_and_swapped_what_landing_holds_counts_once(seed):
    luck = Random(seed)
    for _ in range(100):
        story = Ingested()
        for _ in range(luck.randint(1, 8)):
            story.run(**{name: luck.choice("UVWXYZ") for name in luck.sample("abcd", luck.randint(1, 3))})
        assert story.is_right(), story
