"""Any string parameter is read, or refused with its field; nothing else is raised."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kgd.errors import Invalid, InvariantViolation
from kgd.tools.areas import parameters
from kgd.workspace.writing.admission import MAX_PATTERNS

texts = st.text(max_size=12) | st.text("ab/*[]{}.,", max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["atomId", "reason", "name", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)
strings = values | values.map(json.dumps) | texts


def tried(read: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
    """The value, or None and the place of the refusal."""
    try:
        return read(*arguments), ""
    except (Invalid, InvariantViolation) as refused:
        return None, refused.at


@given(strings)
@example("[" * 5_000)
@example("[[]]")
def test_patterns_are_read_once_and_stay_as_they_are(value: Any) -> None:
    found, place = tried(parameters.patterns, value)
    if found is None:
        assert place.startswith("paths")
        return
    assert 1 <= len(found) <= MAX_PATTERNS
    assert parameters.patterns(found) == parameters.patterns(json.dumps(found)) == found


@given(strings)
def test_related_areas_are_pairs_or_refused(value: Any) -> None:
    found, place = tried(parameters.related, value, "atom", "relatedAtoms")
    if found is None:
        assert place.startswith("relatedAtoms")
        return
    assert all(isinstance(id, str) and isinstance(reason, str) for id, reason in found)


@given(strings)
def test_requested_paths_have_no_blanks_and_no_repeats(value: Any) -> None:
    found, place = tried(parameters.requested_paths, value)
    if found is None:
        assert place == "paths"
        return
    assert found == list(dict.fromkeys(path.strip() for path in found))
    assert all(found)


def test_a_name_with_brackets_is_a_path_and_no_list() -> None:
    assert parameters.requested_paths("[id].tsx, a.py") == ["[id].tsx", "a.py"]
    assert parameters.requested_paths('["with, comma.py", "a.py"]') == ["with, comma.py", "a.py"]
    with pytest.raises(Invalid, match="not a JSON array"):
        parameters.patterns("[id].tsx")
