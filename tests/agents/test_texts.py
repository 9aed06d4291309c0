"""A table in a person's TOML and a block in their Markdown: in, and out again with every byte as it was."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgd.agents.entries import BlockEntry, FileEntry, TomlEntry, server
from kgd.errors import Invalid

TABLE = TomlEntry("server", ("mcp_servers", "kgd"), server("kgd"))
BLOCK = BlockEntry("rules", "## Memory\n\nAsk it.\n")

LINES = """

# a comment
model = "x" # why
[a]
[[list]]
[mcp_servers.other]
command = "y"
[mcp_servers]
kgd.url = "z"
mcp_servers = {}
mcp_servers.dot.command = 'q'
text = '''
[mcp_servers.kgd]
'''
n = 1
m = [
1, # one
]
key = \"\"\"
\"\"\"
a.b = 2
"""
lines = st.sampled_from(LINES.splitlines())


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(st.lists(lines, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_table_is_added_and_removed_and_the_rest_keeps_its_meaning(some: list[str], newline: str, ends: bool) -> None:
    text = newline.join(some) + (newline if ends else "")
    try:
        before = tomllib.loads(text.replace("\r\n", "\n"))
        if TABLE.state(text, known=False) != "absent":
            return
        new = TABLE.put(text)
    except (tomllib.TOMLDecodeError, Invalid):
        return
    before.setdefault("mcp_servers", {})["kgd"] = {"command": "kgd", "args": ["mcp"]}
    assert tomllib.loads(new.replace("\r\n", "\n")) == before
    assert TABLE.state(new, known=False) == "present"
    assert TABLE.taken(new) == text


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(st.text("ab#\n\r`<!->", max_size=30))
def test_a_block_is_added_and_removed(text: str) -> None:
    new = BLOCK.put(text)
    assert new.startswith(text)
    assert BLOCK.state(new, known=False) == "present"
    assert BLOCK.put(new) == new
    assert BLOCK.taken(new) == text


def test_a_file_that_was_made_is_gone_without_its_entry() -> None:
    for entry in (TABLE, BLOCK):
        assert entry.taken(entry.put(None)) is None
        assert entry.taken(entry.put("")) == ""


def test_a_users_text_after_the_entry_stays() -> None:
    text = TABLE.put('model = "x"\n') + "\n[tools]\nsearch = true\n"
    assert TABLE.taken(text) == 'model = "x"\n\n[tools]\nsearch = true\n'
    text = BLOCK.put("# Rules\n") + "\nMore.\n"
    assert BLOCK.taken(text) == "# Rules\n\nMore.\n"


@pytest.mark.parametrize(
    "own",
    [
        '[mcp_servers.kgd]\ncommand = "kgd"\nargs = ["mcp"]\n',
        '[mcp_servers.kgd]\nurl = "https://hub.example/mcp"\n',
        '[mcp_servers]\nkgd = {command = "kgd", args = ["mcp"]}\n',
        "mcp_servers.kgd = 1\n",
    ],
)
def test_a_table_of_the_persons_own_is_not_ours(own: str) -> None:
    assert TABLE.state(own, known=True) == "own"


def test_settings_that_a_person_added_to_our_table_make_it_theirs() -> None:
    text = TABLE.put("") + "startup_timeout_sec = 20\n"
    assert TABLE.state(text, known=True) == "own"


def test_a_table_that_has_no_place_is_refused() -> None:
    with pytest.raises(Invalid, match="cannot be added"):
        TABLE.put("mcp_servers = { a = { command = 'x' } }\n")


def test_broken_toml_is_refused_with_its_line() -> None:
    with pytest.raises(Invalid) as refusal:
        TABLE.put('a = 1\nb = "open\n')
    assert refusal.value.at == "line 2"


def test_a_block_of_an_earlier_kgd_is_replaced_where_it_stands() -> None:
    older = BlockEntry("rules", "old words").put("# Rules\n") + "After.\n"
    assert BLOCK.state(older, known=False) == "outdated"
    new = BLOCK.put(older)
    assert "old words" not in new
    assert BLOCK.taken(new) == "# Rules\nAfter.\n"


def test_marks_that_do_not_match_are_refused() -> None:
    with pytest.raises(Invalid, match="marks"):
        BLOCK.put("# Rules\n" + BLOCK.put(None).replace("<!-- kgd: end -->", ""))
    with pytest.raises(Invalid, match="marks"):
        BLOCK.taken(2 * BLOCK.put(None))


def test_a_file_of_ours_is_recognised_in_every_version_until_it_is_changed() -> None:
    older, newer = FileEntry("skill", "# Skill\n\nOld.\n"), FileEntry("skill", "# Skill\n\nNew.\n")
    text = older.put(None)
    assert [one.state(text, known=False) for one in (older, newer)] == ["present", "outdated"]
    assert newer.state(newer.put(text), known=False) == "present"
    assert newer.state(text.replace("Old", "My own"), known=True) == "own"
    assert newer.state("# Skill\n", known=True) == "own"
    assert older.state(text.replace("\n", "\r\n"), known=False) == "present"
