"""The code agrees with docs/format.md: its examples run here."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from kgd.codec import bulk, canonical, documents, paths
from kgd.codec import settings as settings_file
from kgd.git.creation import first_commit
from kgd.model.change import LogEntry
from kgd.model.node import FIELDS
from kgd.model.uri import OWNED, parse, settings_uri

TEXT = (Path(__file__).resolve().parents[2] / "docs/format.md").read_text()
YAML = re.findall(r"```yaml\n(.*?)```", TEXT, re.S)


@pytest.mark.requirement("E2")
def test_the_paths_of_the_document_match_the_code() -> None:
    rows = re.findall(r"^\| `([a-z]+:\S+)` \| `(nodes/.*)` \|$", TEXT, re.M)
    assert len(rows) > 8
    for uri, path in rows:
        assert paths.path_of(parse(uri)) == path


def test_the_folders_of_parts_match_the_code() -> None:
    rows = re.findall(r"^\| `((?:message|chunk):\S+)` \| (?:`(bulk/.*)/`|none: `(nodes/.*)`) \|$", TEXT, re.M)
    assert len(rows) > 3
    for uri, folder, path in rows:
        assert paths.part_folder_of(parse(uri)) == (folder or None)
        assert folder or paths.path_of(parse(uri)) == path


def test_its_examples_are_in_the_canonical_form() -> None:
    node, conflict, part, settings = (text.encode() for text in YAML)
    assert bulk.encode(bulk.decode(part)) == bulk.encode_entries(bulk.split(part)) == part
    assert documents.encode(documents.decode(node)) == node
    assert documents.encode_conflict(documents.decode_conflict(conflict)) == conflict
    assert settings_file.encode_settings(settings_file.decode_settings(settings)) == settings


def test_it_names_every_scheme_and_every_field() -> None:
    assert set(re.search(r"^`(concept file .*)`$", TEXT, re.M)[1].split()) == OWNED  # type: ignore[index]
    table = TEXT.partition("## 5. Nodes")[2].partition("## 6. Conflicts")[0]
    assert re.findall(r"^\| `([a-z]+)` \|", table, re.M) == list(FIELDS)


def test_its_changelog_entry_and_settings_record_match_the_code() -> None:
    entry = re.search(r"```\n(id: .*?)```", TEXT, re.S)[1]  # type: ignore[index]
    assert documents.encode_entry(documents.decode_entry(entry.encode())).decode() == entry
    assert paths.conflict_path(settings_uri("ws"), "<digest>").replace("/ws/", "/<workspace>/") in TEXT


@pytest.mark.parametrize("number", [1e-05, 0.0001, 1e15, 1e16, 1.5e300, 1.0, 0.5, -0.0])
def test_numbers_look_as_it_says(number: float) -> None:
    text = canonical.dump({"x": number})[3:-1]
    mantissa, _, exponent = text.partition("e")
    assert float(text) == number
    assert bool(exponent) == (number != 0 and not -4 <= math.floor(math.log10(abs(number))) <= 15)
    assert re.fullmatch(r"-?\d+\.\d+" if not exponent else r"-?\d(\.\d+)?", mantissa)
    assert not exponent or re.fullmatch(r"[+-]\d\d+", exponent)


def test_the_first_commit_is_the_one_the_document_names() -> None:
    files = settings_file.first_files("infra")
    assert files[".gitattributes"].decode() in TEXT
    assert first_commit("infra", files)[-1].id.hex() in TEXT


def test_a_changelog_entry_keeps_keys_that_this_version_does_not_know() -> None:
    entry = documents.encode_entry(
        LogEntry("01KA0000000000000000000001", parse("molecule://ws/auth"), "t1", "x", "now")
    )
    written = entry + b"author: ann\ntags:\n- a\n"
    assert documents.encode_entry(documents.decode_entry(written)) == written
