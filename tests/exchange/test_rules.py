"""Rule files of coding agents become areas and go back, and no file of a person's is written over."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kgd.exchange.rules import BLOCKS, KNOWLEDGE, at_top
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, upsert

RULES = {
    "CLAUDE.md": "# Shop\n\nRun `make test` before you commit.\n",
    "src/auth/AGENTS.md": "Sessions are signed.\n",
    ".cursor/rules/api.mdc": "---\ndescription: How handlers are written\nglobs: src/**/*.py,*.{ts,tsx}\n"
    "alwaysApply: false\npriority: 7\n---\n# Handlers\n\nReturn Result.\n",
    ".cursor/rules/always.mdc": "---\ndescription: House style\nglobs:\nalwaysApply: true\n---\nBe brief.\n",
    ".cursor/rules/asked.mdc": "---\ndescription: When you write migrations\n---\nMigrations are additive.\n",
    ".claude/rules/db/models.md": '---\npaths:\n  - **/models/*.py\n  - "src/db/**"\n---\nModels have no I/O.\n',
    ".claude/rules/everywhere.md": "No secrets in code.\n",
    ".github/instructions/py.instructions.md": "---\napplyTo: '**/*.py'\n---\nType everything.\n",
    ".github/copilot-instructions.md": "Use British spelling.\n",
}


def lay(root: Path, rules: dict[str, str] = RULES) -> Path:
    for name, text in rules.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def take(ask: Ask, source: Path, **options: Any) -> Any:
    return ask.__getattr__("import")(source=str(source), **options)


def at(ws: Workspace, uri: str) -> Node:
    node = ws.node(Uri(uri))
    assert node is not None
    return node


def test_each_rule_becomes_the_area_it_applies_to(ask: Ask, ws: Workspace, code: Path) -> None:
    answer = take(ask, lay(code))
    assert (answer["format"], answer["nodes"]["new"], answer["troubles"]) == ("rules", 9, [])
    api = at(ws, "atom://shop/cursor/api")
    assert api.data["paths"] == ["src/**/*.py", "**/*.{ts,tsx}"]
    assert (api.name, api.summary, api.content) == (
        "Handlers",
        "How handlers are written",
        "# Handlers\n\nReturn Result.\n",
    )
    assert api.data["rule"]["keys"] == {"priority": 7}
    assert at(ws, "atom://shop/src/auth/AGENTS.md").data["paths"] == ["src/auth/**"]
    assert at(ws, "atom://shop/claude/db/models").data["paths"] == ["**/models/*.py", "src/db/**"]
    assert at(ws, "atom://shop/copilot/py").data["paths"] == ["**/*.py"]
    whole = [at(ws, f"molecule://shop/{name}") for name in ("CLAUDE.md", "cursor/always", "claude/everywhere")]
    assert {tuple((r.type, r.target) for r in node.relations) for node in whole} == {(("about", "dir://shop/_"),)}
    assert at(ws, "molecule://shop/cursor/asked").relations == ()
    found = ask.query_graph(operation="context", paths="src/auth/session.py")["data"]
    names = {atom["name"] for atom in found.get("atoms", found.get("unaffiliatedAtoms", []))} or str(found)
    assert "Handlers" in str(names)


def test_rules_are_shown_for_the_paths_they_are_about(ask: Ask, code: Path) -> None:
    take(ask, lay(code))
    uris = [item["uri"] for item in ask.context(paths=["src/auth/session.py"])["items"]]
    assert "atom://shop/src/auth/AGENTS.md" in uris
    assert "molecule://shop/CLAUDE.md" in uris
    assert "molecule://shop/cursor/asked" not in uris


def test_rules_go_round_with_the_same_bytes(ask: Ask, ws: Workspace, code: Path, tmp_path: Path) -> None:
    take(ask, lay(code))
    tip = ws.tip
    assert take(ask, code)["nodes"]["unchanged"] == 9
    assert ws.tip == tip
    out = tmp_path / "out"
    ask.export(target=str(out), format="rules")
    assert {name: (out / name).read_text() for name in RULES} == RULES
    assert ask.export(target=str(code), format="rules")["files"] == {"new": 0, "changed": 0, "unchanged": 9, "left": 0}


def test_only_the_changed_parts_of_a_rule_are_written(ask: Ask, code: Path, tmp_path: Path) -> None:
    take(ask, lay(code))
    ask.put(changes=[upsert("atom:cursor/api", summary="Handlers and jobs", data={"paths": ["src/**/*.py"]})])
    out = tmp_path / "out"
    ask.export(target=str(out), format="rules")
    head = (out / ".cursor/rules/api.mdc").read_text().split("---\n")[1]
    assert head.splitlines() == [
        "description: Handlers and jobs",
        "globs: src/**/*.py",
        "alwaysApply: false",
        "priority: 7",
    ]
    left = ask.export(target=str(code), format="rules")
    assert left["files"]["left"] == 1
    assert (code / ".cursor/rules/api.mdc").read_text() == RULES[".cursor/rules/api.mdc"]


@pytest.mark.parametrize(
    ("name", "file", "head"),
    [
        (
            "cursor-rules",
            ".cursor/rules/kgd/checkout.mdc",
            '---\ndescription: "Locales come from the registry"\nglobs: src/checkout/**,src/*.tsx\n'
            "alwaysApply: false\n---\n",
        ),
        ("claude-rules", ".claude/rules/kgd/checkout.md", "---\npaths:\n- src/checkout/**\n- src/*.tsx\n---\n"),
        (
            "copilot-rules",
            ".github/instructions/kgd/checkout.instructions.md",
            "---\ndescription: Locales come from the registry\napplyTo: src/checkout/**,src/*.tsx\n---\n",
        ),
    ],
)
def test_areas_that_kgd_had_first_become_rules_of_each_program(
    ask: Ask, ws: Workspace, code: Path, name: str, file: str, head: str
) -> None:
    ask.put(
        changes=[
            upsert(
                "atom:checkout",
                name="Checkout",
                summary="Locales come from the registry",
                content="Never hard-code a locale.\n",
                data={"paths": ["src/checkout/**", "src/*.tsx"]},
            ),
        ]
    )
    ask.export(target=str(code), format=name)
    text = (code / file).read_text()
    assert text == f"{head}<!-- written by kgd from atom://shop/checkout -->\n# Checkout\n\nNever hard-code a locale.\n"
    tip = ws.tip
    again = take(ask, code, format="rules")
    assert (again["read"], ws.tip) == ({"rule_files": 1, "written_by_kgd": 1}, tip)


def test_a_program_does_not_get_the_same_rule_twice(ask: Ask, code: Path) -> None:
    (code / "CLAUDE.md").write_text("# Rules\nUse tabs.\n")
    take(ask, code, format="rules")
    told = ask.export(target=str(code), format="claude-rules")
    assert (told["files"]["unchanged"], told["files"]["new"]) == (1, 0)
    assert ask.export(target=str(code), format="cursor-rules", dry_run=True)["files"]["new"] == 1


def test_agents_md_keeps_the_users_text_around_the_block(ask: Ask, code: Path) -> None:
    (code / "AGENTS.md").write_bytes(b"# Ours\r\n\r\nBe kind.")
    ask.put(changes=[upsert("atom:checkout", name="Checkout", content="One.\n", data={"paths": ["src/checkout.py"]})])
    ask.export(target=str(code), format="agents-md")
    first = (code / "AGENTS.md").read_bytes()
    assert first.startswith(b"# Ours\r\n\r\nBe kind.\n\n<!-- kgd export begin -->\n")
    assert b"For: `src/checkout.py`" in first
    (code / "AGENTS.md").write_bytes(first + b"Last words.\n")
    ask.put(changes=[upsert("atom:checkout", content="Two <!-- kgd export end -->.\n", expect_version=1)])
    ask.export(target=str(code), format="agents-md")
    second = (code / "AGENTS.md").read_bytes()
    assert second.startswith(b"# Ours\r\n\r\nBe kind.\n\n<!-- kgd export begin -->\n")
    assert second.endswith(b"<!-- kgd export end -->\nLast words.\n")
    assert second.count(b"<!-- kgd export end -->") == 1
    assert b"Two " in second
    answer = take(ask, code, format="rules")
    assert answer["nodes"]["new"] == 1
    shown = ask.get(uris=["molecule:AGENTS.md"])["nodes"][0]["content"]
    assert "Two" not in shown
    assert "Last words." in shown


def test_bad_rules_are_a_line_each_and_the_others_go_on(ask: Ask, ws: Workspace, code: Path, tmp_path: Path) -> None:
    bad = {
        ".cursor/rules/out.mdc": "---\nglobs: /etc/**,../x/*.py\n---\nOut.\n",
        ".cursor/rules/half.mdc": "---\nglobs: src/*.py,../x/*.py\n---\nHalf.\n",
        ".cursor/rules/many.mdc": f"---\nglobs: {','.join(f'a{n}/*.py' for n in range(21))}\n---\nMany.\n",
        ".cursor/rules/broken.mdc": "---\ndescription: [open\n---\nStill a rule.\n",
        ".claude/rules/long.md": "x" * 33_000,
        "CLAUDE.md": "Good.\n",
    }
    lay(code, bad)
    (code / "AGENTS.md").symlink_to("/etc/hostname")
    told = take(ask, code)
    troubles = [f"{t['at']} {t['reason']}" for t in told["troubles"]]
    assert told["nodes"]["new"] == 3
    assert at(ws, "atom://shop/cursor/half").data["paths"] == ["src/*.py"]
    wanted = (
        "out.mdc none of its globs",
        "half.mdc the glob '../x/*.py' was left out",
        "it has 21 globs",
        "invalid front matter",
        "long.md larger than 32 KB",
        "AGENTS.md a symbolic link",
    )
    for words in wanted:
        assert any(words in line for line in troubles), words
    assert (at(ws, "molecule://shop/cursor/broken").content, ws.node(Uri("atom://shop/cursor/out"))) == (
        "Still a rule.\n",
        None,
    )
    out = tmp_path / "out"
    ask.export(target=str(out), format="rules")
    assert (out / ".cursor/rules/broken.mdc").read_text() == bad[".cursor/rules/broken.mdc"]


def test_rules_at_the_top_of_a_tree_are_those_that_an_import_reads(tmp_path: Path) -> None:
    (tmp_path / ".cursor/rules").mkdir(parents=True)
    (tmp_path / ".cursor/rules/notes.md").write_text("no program reads this\n")
    (tmp_path / "CLAUDE.md").write_text(f"{BLOCKS[0][0]}this version -->\nUse kgd.\n{BLOCKS[0][1]}\n")
    assert at_top(tmp_path) == []
    (tmp_path / "CLAUDE.md").write_text("Prices are net.\n")
    (tmp_path / ".cursor/rules/style.mdc").write_text("Names are English.\n")
    (tmp_path / "AGENTS.md").write_text("x" * (KNOWLEDGE + 1))
    assert at_top(tmp_path) == ["CLAUDE.md", ".cursor/rules"]


def test_a_pipe_is_no_rule_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "CLAUDE.md")
    assert at_top(tmp_path) == []


def test_rules_in_a_subfolder_of_a_rule_folder_and_of_gemini_are_at_the_top_too(tmp_path: Path) -> None:
    for name in (".cursor/rules/backend/api.mdc", "GEMINI.md", ".claude/CLAUDE.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("Round once.\n")
    assert at_top(tmp_path) == ["GEMINI.md", ".cursor/rules", ".claude/CLAUDE.md"]
