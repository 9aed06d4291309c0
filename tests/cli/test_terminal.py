"""Output on a terminal: lines, tables, colours, dates and the pager. In a pipe all of it is plain text."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.cells import cell_len

from kgd.cli import areas, layout, printing, printing_context, printing_history, tasks, terminal
from kgd.cli.progress_bar import Bar
from kgd.config import color_choice
from kgd.tools.as_markdown import briefing
from tests.cli.conftest import Kgd
from tests.waiting import until

STYLE = re.compile(r"\033\[[0-9;]*m")
ADDRESS = "concept:services/billing/subscription-renewal-and-dunning/step-4"


@pytest.fixture
def on_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (terminal, printing_history):
        monkeypatch.setattr(module, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("width", [24, 40, 80, 100])
def test_lines_are_broken_between_words_and_never_within_an_address(width: int) -> None:
    text = f"    the renewal leads to {ADDRESS} and then to services/auth, `kgd show services/auth` shows it"
    lines = layout.wrapped(text, width).split("\n")
    assert " ".join(" ".join(lines).split()) == " ".join(text.split())
    assert all(line.startswith("    ") for line in lines)
    assert all(cell_len(line) <= width or line.strip(" ,") == ADDRESS or "`" in line for line in lines)
    assert any(ADDRESS in line for line in lines)


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_a_command_is_never_broken(width: int) -> None:
    command = """`kgd put atom:NAME --data '{"paths": ["src/NAME/**"]}' --content RULES`."""
    lines = layout.wrapped(f"no areas of the code are known yet; create one with {command} Then look.", width)
    assert f"{command}\n" in lines or f"{command} Then" in lines


@pytest.mark.parametrize("width", [80, 100])
def test_the_command_that_creates_the_first_area_has_a_line_of_its_own(
    capsys: pytest.CaptureFixture[str], width: int
) -> None:
    areas.area_list({"areas": [], "groups": [], "total": 0})
    printed = capsys.readouterr().out.splitlines()
    assert layout.wrapped(printed[1], width) == printed[1]
    assert printed[1].startswith("  kgd put atom:NAME ")


def test_wide_characters_are_broken_at_the_width_and_not_before_a_comma() -> None:
    lines = layout.wrapped("  合并冲突的记录放在目录里，从不写成文件里的标记。", 20).split("\n")
    assert "".join(line.strip() for line in lines) == "合并冲突的记录放在目录里，从不写成文件里的标记。"
    assert len(lines) > 1
    assert all(cell_len(line) <= 22 and line.strip()[0] not in "，。" for line in lines)


def test_the_rest_of_a_list_item_is_indented_below_its_text() -> None:
    assert layout.wrapped("  - one two three four five six seven", 30) == "  - one two three four five\n    six seven"


def test_each_line_of_a_coloured_text_sets_and_resets_its_colour() -> None:
    for line in layout.wrapped("\033[31mone two three four five six\033[0m", 12).split("\n"):
        assert "\033[31m" in line
        assert line.endswith("\033[0m")


def test_a_table_aligns_wide_characters_and_numbers() -> None:
    shown = layout.table(("NAME", "N", "WHAT"), [("合并", "7", "x"), ("abcdef", "12", "y " * 20)], 40)
    lines = shown.splitlines()
    assert [cell_len(line[: line.index(mark)]) for line, mark in zip(lines, ("WHAT", "x", "y"), strict=False)] == [
        12
    ] * 3
    assert lines[1].split() == ["合并", "7", "x"]
    assert cell_len(lines[1][: lines[1].index("7")]) == 9
    assert lines[3].startswith(" " * 12 + "y")


@pytest.mark.usefixtures("on_screen")
def test_a_terminal_too_narrow_for_a_table_gets_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("a" * 20, "b" * 20, "c")]
    terminal.table(("A", "B", "C"), rows, "{} {}: {}".format)
    monkeypatch.setenv("COLUMNS", "80")
    terminal.table(("A", "B", "C"), rows, "{} {}: {}".format)
    narrow, wide = capsys.readouterr().out.split(": c", 1)
    assert narrow.split() == ["a" * 20, "b" * 20]
    assert STYLE.sub("", wide).split() == ["A", "B", "C", *rows[0]]


@pytest.mark.parametrize(
    ("environment", "choice"),
    [
        ({}, None),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, False),
        ({"CLICOLOR_FORCE": "1", "TERM": "dumb"}, True),
        ({"CLICOLOR_FORCE": "0"}, None),
        ({"CLICOLOR": "0"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_the_environment_chooses_colour(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], choice: bool | None
) -> None:
    for name in ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert color_choice() is choice


def _luminance(color: int) -> float:
    """The relative luminance of one of the 256 colours, as the accessibility guidelines define it."""
    if color >= 232:
        levels = [8 + 10 * (color - 232)] * 3
    else:
        levels = [(0, 95, 135, 175, 215, 255)[(color - 16) // 6**power % 6] for power in (2, 1, 0)]
    linear = [(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4) for c in (level / 255 for level in levels)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_colour_is_readable_on_white_and_on_black() -> None:
    colors = [int(many.rpartition(";")[2]) for many, _ in terminal.STYLES.values() if many.startswith("38;5;")]
    assert len(colors) >= 5
    for color in colors:
        light = _luminance(color)
        assert min(1.05 / (light + 0.05), (light + 0.05) / 0.05) >= 4, color


@pytest.mark.slow
def test_dates_are_relative_on_a_terminal_and_exact_in_a_pipe(kgd: Kgd) -> None:
    kgd("put", "lamps/attic", "--summary", "dark", "-q")
    at = kgd.json("log", "--limit", "1")["commits"][0]["at"]
    assert at[:16] in kgd("log", "--limit", "1")
    assert re.search("just now|1 minute ago", kgd.on_terminal("log", "--limit", "1"))


@pytest.mark.usefixtures("on_screen")
def test_a_date_that_is_not_in_the_past_is_shown_unchanged() -> None:
    soon = (datetime.now(UTC) + timedelta(days=2)).isoformat()
    assert [terminal.when(one) for one in ("", "now", "2026-11-20", soon)] == ["", "now", "2026-11-20", soon]


def test_a_terminal_shows_addresses_of_the_directorys_workspace_in_short(kgd: Kgd) -> None:
    kgd("put", "lamps/cellar", "--relations", "near:gotcha:damp", "-q")
    shown = kgd.on_terminal("get", "lamps/cellar", NO_COLOR="1")
    assert shown.startswith("concept:lamps/cellar  concept")
    assert "-> near gotcha:damp" in shown
    assert "gotcha://shop/damp" in kgd("get", "lamps/cellar")
    for elsewhere in (["lamps/cellar", "-w", "shop"], ["concept://shop/lamps/cellar"]):
        assert "concept://shop/lamps/cellar" in kgd.on_terminal("get", *elsewhere, NO_COLOR="1")


def test_an_address_that_could_not_be_typed_is_not_shortened(kgd: Kgd) -> None:
    kgd("put", "person://shop/ann", "--summary", "Fixes the lamps", "-q")
    assert "person://shop/ann  resource" in kgd.on_terminal("get", "person://shop/ann", NO_COLOR="1")
    assert "Did you mean person://shop/ann?" in kgd.on_terminal("log", "person:ann", NO_COLOR="1")


@pytest.mark.slow
def test_colours_follow_the_terminal_and_can_be_forced(kgd: Kgd) -> None:
    kgd("put", "lamps/hall", "-q")
    assert STYLE.search(kgd.on_terminal("get", "lamps/hall"))
    assert not STYLE.search(kgd.on_terminal("get", "lamps/hall", NO_COLOR="1"))
    assert not STYLE.search(kgd.on_terminal("get", "lamps/hall", TERM="dumb"))
    assert not STYLE.search(kgd("get", "lamps/hall"))
    forced = kgd.run("get", "lamps/hall", CLICOLOR_FORCE="1").stdout
    assert STYLE.search(forced)
    assert STYLE.sub("", forced) == kgd("get", "lamps/hall"), "the same text as without colour"


def test_blocks_of_code_keep_their_lines(kgd: Kgd) -> None:
    code = "x = [" + ", ".join(map(str, range(40))) + "]"
    kgd("put", "lamps/code", "--content", "-", "-q", stdin=f"{'Words and ' * 20}more.\n\n```\n{code}\n```\n")
    shown = kgd.on_terminal("get", "lamps/code").splitlines()
    assert code in shown
    assert max(len(line) for line in shown if line.startswith("Words")) <= 80


def test_lines_meant_for_pasting_are_not_broken(kgd: Kgd) -> None:
    added = kgd.on_terminal("agents", "install", "--client", "claude", "--dry-run", columns=60)
    assert '"kgd prime --hook || true"' in added


def test_a_change_without_an_effect_says_so_once(kgd: Kgd) -> None:
    kgd("put", "lamps/pantry", "--summary", "x", "-q")
    shown = kgd.on_terminal("put", "lamps/pantry", "--summary", "x", NO_COLOR="1")
    assert shown == "nothing changed\n  ! concept:lamps/pantry already has these values\n"


def test_a_changed_relation_is_shown_as_a_relation(kgd: Kgd) -> None:
    kgd("put", "lamps/porch", "--relations", "lights:lamps/door@0.3", "-q")
    shown = kgd.on_terminal("history", "lamps/porch", "--diff", NO_COLOR="1", columns=100)
    assert "+ -> lights concept:lamps/door @0.3" in shown


def test_a_fact_without_a_name_is_shown_whole_in_every_list(kgd: Kgd) -> None:
    fact = "The copper kettle must never be put on the induction plate."
    kgd("remember", fact, "-q")
    for asked in (["recall", "kettle"], ["search", "kettle"], ["context", "where does the kettle go?"]):
        assert fact in " ".join(kgd.on_terminal(*asked, NO_COLOR="1").split())


def test_the_lack_of_knowledge_comes_before_the_hits_in_the_code(kgd: Kgd) -> None:
    asked = "check"
    until(lambda: "In the code" in kgd("context", asked))
    assert kgd("context", asked).startswith("Nothing is known about this question.")
    text = briefing(kgd.json("context", asked))
    assert text.index("Nothing is known") < text.index("in the code:")


def test_a_hit_in_the_code_shows_its_summary_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(printing, "is_terminal", lambda: True)
    node = {"uri": "symbol://shop/a.py/check", "name": "check", "summary": "Check a token."}
    printing.search({"hits": [], "code": [{**node, "snippet": "def check() -> bool Check a token."}]})
    assert capsys.readouterr().out.count("Check a token.") == 1


def test_the_rest_of_a_snippet_does_not_begin_with_the_end_of_the_summary(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(printing, "is_terminal", lambda: True)
    for rest in ("Seen in May.", ""):
        node = {"uri": "insight://shop/a", "name": "a", "summary": "It hums"}
        printing.search({"hits": [{**node, "snippet": f"It hums. {rest}".rstrip()}]})
        assert [line.strip() for line in capsys.readouterr().out.splitlines()[2:]] == [rest] * bool(rest)


def test_a_narrow_terminal_shows_the_subject_of_a_commit_on_its_own_line(kgd: Kgd) -> None:
    kgd("put", "lamps/cellar", "--summary", "x", "-m", "why the cellar has a lamp", "-q")
    assert "\n    why the cellar has a lamp\n" in kgd.on_terminal("log", "--limit", "1", columns=36, NO_COLOR="1")


def test_a_terminal_shows_a_commit_of_the_log_on_one_line(kgd: Kgd) -> None:
    fact = "The stable lantern is filled on Fridays, before the horses come back."
    kgd("remember", fact, "-q")
    asked = ("log", "--limit", "1")
    row = kgd.on_terminal(*asked, NO_COLOR="1").splitlines()[1]
    assert re.match(r"[0-9a-f]{10}  just now .*  The stable lantern .*…$", row)
    assert 70 < cell_len(row) <= 80
    plain = kgd(*asked)
    whole = plain.rstrip().partition("  put insight://shop/the-stable-lantern-is-filled-on: ")[2]
    assert whole.startswith("The stable lantern is filled on Fridays, before ")
    assert whole in " ".join(kgd.on_terminal(*asked, "--long", NO_COLOR="1").split())
    assert kgd(*asked, "--long") == plain


def test_a_line_is_cut_by_its_columns_and_ends_its_style() -> None:
    assert layout.cut("a line", 6) == "a line"
    assert layout.cut("a long line", 8) == "a long…"
    assert layout.cut("合并冲突的记录", 8) == "合并冲…"
    assert layout.cut("\033[1ma long line\033[0m", 8) == "\033[1ma long…\033[0m"


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_progress_fits_the_width_with_its_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    Bar(has_color=False).show("indexing code and documents", 12_001, 12_950, 75.0)
    line = capsys.readouterr().err.rpartition("\033[K")[2]
    assert "12,001 of 12,950" in line
    assert ("1 min 15 s so far" in line) == (columns >= 80)
    assert cell_len(STYLE.sub("", line)) < columns


def test_history_has_no_spaces_at_the_end_of_a_line(kgd: Kgd) -> None:
    kgd("put", "lamps/stairs", "-q")
    kgd("undo", "-q")
    assert not re.search(r" $", kgd("history", "lamps/stairs"), re.M)


def test_history_names_the_node_of_a_change_once(kgd: Kgd) -> None:
    kgd("put", "lamps/loft-beam", "--summary", "x", "-q")
    assert kgd.on_terminal("history", "lamps/loft-beam", NO_COLOR="1").count("lamps/loft-beam") == 1
    assert kgd("history", "lamps/loft-beam").count("lamps/loft-beam") == 2


def test_doctor_shows_healthy_stages_on_one_line(kgd: Kgd) -> None:
    until(lambda: "ok       shop: commit, publish, " in kgd.on_terminal("doctor", NO_COLOR="1", columns=100))
    assert "ok       shop commit\n" in kgd("doctor")


def test_doctor_and_review_name_the_command_for_each_kind_of_work(kgd: Kgd) -> None:
    kgd("put", "lamps/attic", "--summary", "x")
    kgd("link", "lamps/attic", "lamps/nowhere")
    commit = kgd.json("put", "lamps/attic", "--summary", "y")["commit"]
    kgd("put", "lamps/attic", "--summary", "z")
    kgd("revert", commit)
    told = [line.strip() for line in kgd.on_terminal("doctor", NO_COLOR="1", columns=100).splitlines()]
    at = told.index("to do    shop: 1 open conflict")
    assert "broken link" in told[at - 2]
    assert told[at - 1 : at + 2 : 2] == ["`kgd status` lists them.", "`kgd conflicts` shows the sides of each."]
    for command in ("status", "review"):
        assert "  ! 1 open conflict; `kgd conflicts` shows the sides of each\n" in kgd(command)
    kgd("resolve", "lamps/attic", "--take", "a")


def test_an_error_is_broken_between_words_on_a_terminal(kgd: Kgd) -> None:
    asked = ("get", "lamps/a-lamp-that-nobody-has-ever-seen-in-this-house")
    shown = kgd.on_terminal(*asked, columns=60, NO_COLOR="1").splitlines()
    told = " ".join(kgd.run(*asked).stderr.split()).replace("concept://shop/", "")
    assert " ".join(line.strip() for line in shown) == told
    assert all(line.startswith("     ") for line in shown[1:])


def test_an_error_on_a_terminal_shows_addresses_as_they_are_typed(kgd: Kgd) -> None:
    kgd("put", "lamps/hall", "--summary", "x", "-q")
    for command in ("get", "rm"):
        shown = kgd.on_terminal(command, "lamps/hal", NO_COLOR="1")
        assert shown == "kgd: there is no such node (lamps/hal)\n     Did you mean concept:lamps/hall?\n"
        typed = kgd.on_terminal(command, "concept:lamps/hal", NO_COLOR="1")
        assert typed.startswith("kgd: there is no such node (concept:lamps/hal)\n")
        assert "concept://shop/lamps/hal)" in kgd.run(command, "lamps/hal").stderr
        assert "concept://shop/lamps/hal)" in kgd.on_terminal(command, "concept://shop/lamps/hal", NO_COLOR="1")
    for words in (("path", "lamps/hal", "lamps/hall"), ("path", "lamps/hall", "lamps/hal")):
        shown = kgd.on_terminal(*words, NO_COLOR="1")
        assert "there is no such node (lamps/hal)" in shown
        assert "Did you mean lamps/hall?" in shown


def test_a_review_on_a_terminal_shows_the_text_of_a_new_node_once_and_first(kgd: Kgd) -> None:
    content = "The hall lamp hums.\n\nIts ballast is from 1987.\n"
    fields = ("--name", "Hall lamp", "--summary", "The hall lamp hums", "--content", content, "--tags", "light")
    kgd("put", "insight:hall-lamp", *fields, "-q")
    shown = kgd.on_terminal("review", "--since", "today", NO_COLOR="1").partition("added insight:hall-lamp\n")[2]
    assert [line.strip() for line in shown.splitlines()[:3]] == [
        "+ summary: The hall lamp hums",
        "+ content: Its ballast is from 1987.",
        "+ tags: light",
    ]
    accepted = kgd.on_terminal("review", "--accept", "--dry-run", NO_COLOR="1").splitlines()
    assert accepted[-1].startswith("would be reviewed up to ")
    assert all(re.fullmatch(r".*, \d+ commits?", line) for line in accepted[:-1]), "the authors alone"


def test_a_changed_text_on_a_terminal_shows_only_the_changed_lines(kgd: Kgd) -> None:
    kgd("put", "lamps/attic", "--content", "It blinks.\n\nTwice a day.\n", "-q")
    kgd("append", "lamps/attic", "Since May.", "-q")
    shown = kgd.on_terminal("history", "lamps/attic", "--diff", "--limit", "1", NO_COLOR="1")
    assert "changed concept:lamps/attic\n      + content: Since May.\n" in shown


def test_a_task_has_its_summary_below_its_name_on_a_narrow_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    shown = [{"id": "task://shop/a", "status": "pending", "name": "A" * 50, "summary": "x"}]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "is_terminal", lambda: True)
        patch.setattr(terminal, "is_terminal", lambda: True)
        tasks.task_list({"data": {"tasks": shown, "total": 1}})
    assert capsys.readouterr().out == f"pending      {'A' * 50}\n             x\n"


PAGER = "sed s/^/paged:/"


def test_output_higher_than_the_terminal_goes_through_the_pager(kgd: Kgd) -> None:
    text = "\n".join(f"Line {number}." for number in range(40))
    kgd("put", "lamps/long", "--content", "-", "-q", stdin=text)
    asked = ("get", "lamps/long")
    assert kgd.on_terminal(*asked, rows=24, KGD_PAGER=PAGER).count("paged:") > 40
    assert kgd.on_terminal(*asked, rows=24, PAGER=PAGER, KGD_PAGER="cat").count("paged:") == 0
    assert kgd.on_terminal(*asked, rows=24, PAGER=PAGER).count("paged:") > 40
    assert "paged:" not in kgd.on_terminal(*asked, rows=100, KGD_PAGER=PAGER)
    assert "paged:" not in kgd.on_terminal(*asked, rows=0, KGD_PAGER=PAGER)
    assert "paged:" not in kgd.on_terminal(*asked, "--no-pager", rows=24, KGD_PAGER=PAGER)
    assert "paged:" not in kgd.run(*asked, KGD_PAGER=PAGER).stdout
    assert "Line 39." in kgd.on_terminal(*asked, rows=24, KGD_PAGER=shlex.quote("/nothing/here"))


@pytest.mark.parametrize("columns", [40, 80])
def test_a_path_between_nodes_reads_from_top_to_bottom(kgd: Kgd, columns: int) -> None:
    kgd("put", "lamps/a", "--summary", "The first lamp of a long corridor", "--relations", "leads_to:lamps/b", "-q")
    kgd("put", "lamps/b", "--summary", "The second lamp", "-q")
    kgd("put", "lamps/c", "--relations", "leads_to:lamps/a", "--relations", "leads_to:lamps/b", "-q")
    shown = kgd.on_terminal("path", "lamps/a", "lamps/b", columns=columns, NO_COLOR="1")
    assert shown.startswith("  COST  NODE\n     0  concept:lamps/a")
    assert kgd("path", "lamps/a", "lamps/b").startswith("     0  concept://shop/lamps/a")
    assert "another path, cost 2: through concept:lamps/c" in " ".join(shown.split())
    assert [line.split()[-1] for line in shown.splitlines() if "concept:" in line or "↓" in line]
    assert "↓ leads_to" in shown
    assert max(map(len, shown.splitlines())) <= columns


def test_a_terminal_shows_the_text_of_a_hit_and_its_address_below(kgd: Kgd) -> None:
    kgd("remember", "The brass bell rings twice at noon.", "--about", "./src/auth/session.py", "-q")
    shown = kgd.on_terminal("search", "brass bell", NO_COLOR="1")
    assert shown.startswith("The brass bell rings twice at noon.\n    insight:the-brass-bell-rings-twice-at")
    plain = kgd("search", "brass bell")
    assert "insight://" in plain.splitlines()[0]
    assert "lex" not in plain, "a score means nothing to a reader"
    assert kgd.json("search", "brass bell")["hits"][0]["lex"] == 1


def test_a_terminal_shows_a_symbol_as_path_line_and_name(kgd: Kgd) -> None:
    until(lambda: kgd.json("search", "check").get("code"))
    assert "src/auth/session.py:1  check\n" in kgd.on_terminal("search", "check", NO_COLOR="1")
    assert "symbol://shop/src/auth/session.py/check  check  src/auth/session.py:1" in kgd("search", "check")
    assert "src/auth/session.py:1  check  found by" in kgd.on_terminal("context", "--question", "check", NO_COLOR="1")


def test_a_terminal_shows_files_as_paths_and_their_symbols_in_one_paragraph(kgd: Kgd) -> None:
    kgd("bootstrap", "-q")
    shown = kgd.on_terminal("get", "./src/auth/session.py", NO_COLOR="1")
    assert shown.startswith("src/auth/session.py  ")
    assert "  symbols: check\n" in shown
    assert kgd.on_terminal("get", "src/auth/session.py", NO_COLOR="1") == shown


def test_the_items_of_a_context_are_printed_under_one_heading_of_a_kind(capsys: pytest.CaptureFixture[str]) -> None:
    items = [
        {"kind": kind, "name": kind, "uri": f"{kind}://shop/x{number}", "why": "found"}
        for number, kind in enumerate(("molecule", "gotcha", "atom"))
    ]
    printing_context.context({"items": items, "changes": [], "changed_together": [], "unmatched_paths": [], "cut": []})
    assert re.findall(r"^\w.*", capsys.readouterr().out, re.M) == ["Areas", "Gotchas"]


@pytest.mark.usefixtures("on_screen")
def test_a_piece_of_a_document_in_a_context_is_shown_by_its_heading(capsys: pytest.CaptureFixture[str]) -> None:
    code = {"name": "Keys › Rotation", "uri": "chunk://shop/docs/keys.md/0009", "why": "found by content: keys"}
    lists: dict[str, Any] = {"items": [], "changes": [], "changed_together": [], "unmatched_paths": [], "cut": []}
    printing_context.context({**lists, "code": [code]})
    assert "Keys › Rotation" in STYLE.sub("", capsys.readouterr().out)


def test_a_context_has_an_empty_line_between_its_parts_and_none_before_the_first(kgd: Kgd) -> None:
    kgd("remember", "The cellar floods in May.", "--about", "src/auth/session.py", "-q")
    shown = kgd.on_terminal("context", "src/auth/session.py", NO_COLOR="1")
    assert shown.startswith("Facts\n")
    assert "\n\nRecent changes\n" in shown
    assert not kgd("context", "src/auth/session.py").startswith("\n")


@pytest.mark.slow
def test_more_results_are_asked_for_by_a_limit_on_a_terminal_and_by_the_cursor_in_a_pipe(kgd: Kgd) -> None:
    for number in range(12):
        kgd("remember", f"Copper pipe {number} is cold.", "-q")
    assert "more: repeat the command with --limit 20" in kgd.on_terminal("search", "copper", NO_COLOR="1")
    assert "more: --cursor " in kgd("search", "copper")


def test_a_folder_on_a_terminal_has_a_slash_since_a_concept_may_have_its_name(kgd: Kgd) -> None:
    kgd("put", "concept:src/auth", "--summary", "not the folder", "-q")
    assert "  src/auth/" in kgd.on_terminal("traverse", "./src", NO_COLOR="1")
    assert "not the folder" not in kgd("get", "src/auth/")


def test_the_root_folder_has_an_address_that_can_be_typed(kgd: Kgd) -> None:
    first = kgd.on_terminal("get", "./", NO_COLOR="1").split()[0]
    assert first == "dir:_"
    assert kgd("get", first).startswith("dir://shop/_ ")


def test_a_question_without_an_answer_has_its_age(kgd: Kgd) -> None:
    kgd("search", "zeppelin hangars")
    assert re.search(
        r"zeppelin hangars  \w+  (just now|1 minute ago), kgd-cli", kgd.on_terminal("questions", NO_COLOR="1")
    )


def test_an_answer_that_was_cut_below_its_limit_continues_with_the_cursor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A higher limit would end at the same size."""
    monkeypatch.setattr(printing, "is_terminal", lambda: True)
    printing.more({"hits": [{}] * 3, "cursor": "c"}, {"limit": 50})
    assert "--cursor c\n" in capsys.readouterr().out


def test_the_nodes_of_a_review_count_towards_its_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(printing, "is_terminal", lambda: True)
    printing.more({"authors": [{"nodes": [{}] * 3}, {"nodes": [{}]}], "cursor": "c"}, {"limit": None})
    assert "--limit 8\n" in capsys.readouterr().out


@pytest.mark.slow
def test_an_area_is_shown_with_its_rules_facts_and_files(kgd: Kgd) -> None:
    kgd("put", "molecule:safety", "--name", "Safety", "--content", "Check twice.", "-q")
    data = '{"paths": ["src/auth/**"], "moleculeId": "molecule://shop/safety"}'
    kgd("put", "atom:entry", "--name", "Entry", "--content", "Keys rotate weekly.", "--data", data, "-q")
    kgd("remember", "The entry bell is loud.", "--about", "./src/auth/session.py", "-q")
    listed = kgd("areas")
    assert "atom://shop/entry  Entry  Safety  src/auth/**\n" in listed
    shown = kgd("areas", "entry")
    for part in ("Entry  atom://shop/entry", "Keys rotate weekly.", "The entry bell is loud.", "  src/auth/session.py"):
        assert part in shown
    assert "Entry  atom://shop/entry" in kgd("areas", "safety")
    assert kgd.json("areas", "entry")["facts"]["known_files"] == 1
    assert "\n\nRules\n  Keys rotate weekly.\n\nFacts (" in kgd.on_terminal("areas", "entry", NO_COLOR="1")
    assert "  Safety  " in kgd("areas", "--limit", "1")
    refused = kgd.run("areas", "nosuch")
    assert (refused.returncode, refused.stderr) == (
        3,
        "kgd: there is no such area (nosuch)\n     `kgd areas` lists them.\n",
    )


def test_the_files_of_an_area_are_listed_with_their_facts_and_other_areas(kgd: Kgd) -> None:
    for name, pattern in (("doors", "src/auth/**"), ("all-code", "src/**")):
        kgd("put", f"atom:{name}", "--name", name, "--data", f'{{"paths": ["{pattern}"]}}', "-q")
    head, row = kgd.on_terminal("coverage", "--area", "doors", NO_COLOR="1").splitlines()[1:3]
    assert head.split() == ["PATH", "FACTS", "ALSO", "IN"]
    assert row.startswith("src/auth/session.py")
    assert row[head.index("ALSO") :].startswith("all-code")


def test_a_terminal_shows_names_before_addresses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(printing, "is_terminal", lambda: True)
    printing.superseded({"superseded_by": {"uri": "insight://shop/new-keys", "name": "New keys"}}, "")
    printing.superseded({"superseded_by": {"uri": "insight://shop/new-keys", "name": "new-keys"}}, "")
    shown = STYLE.sub("", capsys.readouterr().out).splitlines()
    assert shown == [
        "! superseded by New keys, insight://shop/new-keys",
        "! superseded by insight://shop/new-keys",
    ]


def test_a_conflict_of_a_node_with_a_name_begins_with_the_name(kgd: Kgd) -> None:
    kgd("put", "lamps/veranda", "--name", "Veranda lamp", "--summary", "x", "-q")
    commit = kgd.json("put", "lamps/veranda", "--summary", "y")["commit"]
    kgd("put", "lamps/veranda", "--summary", "z", "-q")
    kgd("revert", commit, "-q")
    shown = kgd.on_terminal("conflicts", "lamps/veranda", NO_COLOR="1")
    assert shown.startswith("Veranda lamp\nconcept:lamps/veranda\n  summary\n")
    assert kgd("conflicts", "lamps/veranda").startswith("concept://shop/lamps/veranda  ")
    kgd("resolve", "lamps/veranda", "--take", "a", "-q")


@pytest.mark.usefixtures("on_screen")
def test_a_conflict_is_named_by_its_node_if_the_node_has_only_one(capsys: pytest.CaptureFixture[str]) -> None:
    one = {"uri": "concept://shop/lamp", "id": "concept://shop/lamp#f219", "fields": {}}
    printing_history.conflicts({"conflicts": [one]})
    printing_history.conflicts({"conflicts": [one, {**one, "id": "concept://shop/lamp#5a11"}]})
    single, _, several = STYLE.sub("", capsys.readouterr().out).partition("--take a\n")
    assert single.endswith("kgd resolve concept://shop/lamp ")
    assert several.endswith("kgd resolve concept://shop/lamp#f219 --take a\n")


def test_a_task_has_a_short_address_on_a_terminal(kgd: Kgd) -> None:
    assert "('task:Oil it')" in kgd.on_terminal("task", "add", "Oil it", "--objective", "x", NO_COLOR="1")
    shown = kgd.on_terminal("recall", "oil", NO_COLOR="1")
    (word,) = [word for word in shlex.split(shown, posix=True) if word.startswith("task:")]
    assert kgd.json("get", word)["nodes"][0]["uri"] == "task://shop/Oil%20it"
    assert [line for line in kgd("task", "list").splitlines() if "Oil it" in line] == ["pending      Oil it: x"]
    assert "workspace" not in kgd.json("task", "show", "Oil it")


def test_the_nodes_of_an_author_have_their_text_above_their_address(kgd: Kgd) -> None:
    kgd("remember", "The cellar door sticks in winter.", "-q")
    name = kgd.json("log", "--limit", "1")["commits"][0]["author"]
    shown = kgd.on_terminal("author", name, NO_COLOR="1")
    assert "  The cellar door sticks in winter.\n    insight:the-cellar-door-sticks-in-winter" in shown


def test_each_list_of_nodes_names_the_successor(capsys: pytest.CaptureFixture[str]) -> None:
    node = {"uri": "decision://shop/old", "type": "decision", "name": "Old", "kind": "decision", "why": "", "cost": 0}
    node |= {"superseded_by": {"uri": "decision://shop/new", "name": "New"}, "files": [], "version": 1, "origin": {}}
    printing.search({"hits": [{**node, "why": [], "score": 1}]})
    printing.traverse({"nodes": [node], "cut": [], "broken_links": []})
    printing.get({"nodes": [node], "missing": []})
    printing_context.context(
        {**dict.fromkeys(("changed_together", "known_by", "unmatched_paths", "cut"), ()), "items": [node]}
    )
    printed = capsys.readouterr().out
    assert printed.count("! superseded by decision://shop/new\n") == 4, printed
