"""The ledger of `make soak`."""

from __future__ import annotations

import json
from collections import Counter

from tests.soak.__main__ import counts_of
from tests.sync.killed import Seen


def test_the_ledger_keeps_a_counter_as_an_object() -> None:
    seen = Seen(kills=2, chores=Counter(gc=290, repack=294))
    assert json.loads(json.dumps(counts_of(seen)))["chores"] == {"gc": 290, "repack": 294}
