"""Damaged files end in an error of ours, or are other valid data: no crash, no hang, no error of others.

Every kind of file is cut short and mutated, in processes of their own: one that dies names the case that killed it. A
case is made again with ``python tests/damage/process.py FOLDER KIND FIRST STOP``. Forged files have the digest that
belongs to their content: whatever can be read can be solved, reported, inspected, merged and written again.
"""

from __future__ import annotations

import pytest

from damage.campaign import Outcome, campaigns
from damage.kinds import KINDS
from damage.uses import use_data
from mergesvm.data.paths import find_files
from mergesvm.data.readers.registry import reader_classes, reader_for

pytestmark = pytest.mark.xdist_group("corruption")  # what all of them need takes half a minute: once, not twice


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What became of the kinds that are asked for: at length, that takes hours for all of them."""
    calls = [getattr(item, "callspec", None) for item in request.session.items]
    asked = {call.params.get("name") for call in calls if call is not None}
    return campaigns(tmp_path_factory.mktemp("corruption"), [name for name in KINDS if name in asked])


@pytest.mark.parametrize("name", list(KINDS))
def test_a_damaged_file_ends_in_an_error_of_ours_or_is_other_valid_data(name, outcomes):
    outcome = outcomes[name]
    assert not outcome.failures, "\n".join(outcome.failures[:10])
    assert sum(outcome.tally.values()) >= KINDS[name].mutations
    assert sum(outcome.tally.values()) > outcome.tally.get("fine", 0), "no damage was noticed at all"


def test_every_reader_has_a_file_that_is_damaged_here(tmp_path):
    for kind in KINDS.values():
        if kind.use is use_data:
            kind.write(tmp_path / kind.file)
    samples = {reader_for(file, None) for file in find_files(tmp_path)}
    assert samples == set(reader_classes())
