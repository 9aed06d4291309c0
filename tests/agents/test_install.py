"""`kgd agents`: a home with all four hosts is set up, works, and is restored byte for byte."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgd.agents import jsonc
from kgd.agents.install import NOTES
from kgd.cli.main import run

CLAUDE_JSON = """{
  "numStartups": 41, // since spring
  "mcpServers": {
    "github": {"type": "http", "url": "https://api.example/mcp"}, /* with a token */
  },
  "projects": {"/home/me/shop": {"history": ["a \\u2028 line"]}}
}"""
SETTINGS = """\ufeff{
\t// permissions are the team's
\t"permissions": {"allow": ["Bash(make test)"]},
\t"hooks": {
\t\t"SessionStart": [
\t\t\t{"hooks": [{"type": "command", "command": "date"}]}, // first
\t\t],
\t},
}
"""
CURSOR = '{"mcpServers":{"linear":{"command":"npx","args":["-y","linear-mcp"]}}}'
CURSOR_HOOKS = '{\r\n  "version": 1,\r\n  "hooks": {\r\n    "stop": [{"command": "./stop.sh"}]\r\n  }\r\n}\r\n'
CODE = '{\n    // servers of mine\n    "inputs": [],\n    "servers": {\n        // "off": {}\n    }\n}\n'
CODEX = (
    '# mine\r\nmodel = "o9" # fast\r\n\r\n[mcp_servers.docs]\r\ncommand = "docs"\r\n[mcp_servers.docs.env]\r\nA = "1"'
)
FILES = {
    ".claude.json": CLAUDE_JSON,
    ".claude/settings.json": SETTINGS,
    ".claude/CLAUDE.md": "# Me\n\nBe brief.",
    ".cursor/mcp.json": CURSOR,
    ".cursor/hooks.json": CURSOR_HOOKS,
    ".config/Code/User/mcp.json": CODE,
    ".codex/config.toml": CODEX,
    ".codex/AGENTS.md": "",
}


class Desk:
    """A person's home and a project, and `kgd agents` in it. No daemon ever runs."""

    def __init__(self, root: Path) -> None:
        self.home, self.project = root / "me", root / "shop"
        self.home.mkdir()
        self.project.mkdir()
        subprocess.run(["git", "init", "-q", self.project], check=True)

    def write(self, files: dict[str, str], below: Path | None = None) -> None:
        for name, text in files.items():
            path = (below or self.home) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """As a process would, without the time that one takes."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(words)
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    def json(self, *words: str) -> dict[str, Any]:
        done = self.run(*words, "--json")
        assert done.stdout, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def states(self, *words: str) -> dict[str, str]:
        """What `kgd agents` says of each file."""
        return {
            str(Path(one["path"]).relative_to(self.home.parent)): one["state"]
            for one in self.json("agents", *words)["entries"]
        }

    def snapshot(self) -> dict[str, tuple[bytes, int]]:
        """Every file and folder but kgd's own and git's."""
        found = {}
        for base in (self.home, self.project):
            for path in base.rglob("*"):
                if not {"kgd", ".git"} & set(path.relative_to(base).parts[:1]):
                    content = (
                        os.readlink(path).encode() if path.is_symlink() else b"" if path.is_dir() else path.read_bytes()
                    )
                    found[str(path)] = (content, path.lstat().st_mode)
        return found


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(desk.home))
    monkeypatch.setenv("KGD_HOME", str(desk.home / "kgd"))
    monkeypatch.chdir(desk.project)
    yield desk
    assert not (desk.home / "kgd" / "state" / "daemon.lock").exists(), "a command that needs no daemon started one"


def test_where_no_client_is_seen_status_says_so_and_only_install_is_refused(desk: Desk) -> None:
    for action in ("status", "uninstall"):
        done = desk.run("agents", action)
        assert (done.returncode, done.stderr) == (0, "")
        assert (
            f"none of the clients that kgd knows was found here. Name them: `kgd agents {action} --client"
            in done.stdout
        )
    assert desk.json("agents", "status")["entries"] == []
    assert desk.run("agents", "install").returncode == 2


def test_a_home_with_all_four_clients_is_set_up_and_given_back(desk: Desk) -> None:
    desk.write(FILES)
    (desk.home / ".claude.json").chmod(0o600)
    before = desk.snapshot()

    assert set(desk.states("install", "--user", "--dry-run").values()) == {"added"}
    assert desk.snapshot() == before

    assert set(desk.states("install", "--user").values()) == {"added"}
    assert (desk.home / ".claude.json").stat().st_mode & 0o777 == 0o600
    changed = desk.snapshot()
    assert set(desk.states("install", "--user").values()) == {"present"}
    assert desk.snapshot() == changed

    for name, path in (
        (".claude.json", ["mcpServers"]),
        (".cursor/mcp.json", ["mcpServers"]),
        (".config/Code/User/mcp.json", ["servers"]),
    ):
        was, now = jsonc.parse(FILES[name].lstrip("\ufeff")).data, jsonc.parse((desk.home / name).read_text()).data
        assert now[path[0]].pop("kgd")["args"] == ["mcp"]
        assert now == was
    settings = jsonc.parse((desk.home / ".claude/settings.json").read_bytes().decode("utf-8-sig")).data
    assert "prime --hook" in settings["hooks"]["SessionStart"].pop(0)["hooks"][0]["command"]
    assert settings == jsonc.parse(SETTINGS.lstrip("\ufeff")).data
    hooks = json.loads((desk.home / ".cursor/hooks.json").read_text())
    assert "prime --hook cursor" in hooks["hooks"].pop("sessionStart")[0]["command"]
    assert hooks == json.loads(CURSOR_HOOKS)
    codex = tomllib.loads((desk.home / ".codex/config.toml").read_text())
    assert codex["mcp_servers"].pop("kgd")["args"] == ["mcp"]
    assert codex == tomllib.loads(CODEX.replace("\r\n", "\n"))
    for name in FILES:  # comments, line ends and marks stay, in their order
        assert _is_within(FILES[name].encode(), (desk.home / name).read_bytes())

    assert set(desk.states("uninstall", "--user", "--dry-run").values()) == {"removed"}
    assert desk.snapshot() == changed
    assert set(desk.states("uninstall", "--user").values()) == {"removed"}
    assert desk.snapshot() == before


def test_a_dry_run_and_status_leave_a_damaged_file_of_notes(desk: Desk) -> None:
    desk.write(FILES)
    notes = desk.home / "kgd" / "state" / NOTES
    notes.parent.mkdir(parents=True)
    notes.write_text("{")
    for words in (("install", "--user", "--dry-run"), ("uninstall", "--user", "--dry-run"), ("status", "--user")):
        desk.states(*words)
        assert [one.name for one in notes.parent.iterdir()] == [NOTES]
        assert notes.read_text() == "{"


def _is_within(part: bytes, whole: bytes) -> bool:
    """Whether `part` is left where some bytes of `whole` are taken out."""
    rest = iter(whole)
    return all(byte in rest for byte in part)


def test_a_project_is_set_up_and_restored(desk: Desk) -> None:
    files = {
        "AGENTS.md": "# Rules\r\n\r\n- test\r\n",
        "CLAUDE.md": "@AGENTS.md\n",
        ".mcp.json": "{}\n",
        ".vscode/mcp.json": "\n",
    }
    desk.write(files, desk.project)
    before = desk.snapshot()
    clients = ("--client", "claude,cursor,vscode,codex")
    states = desk.states("install", *clients)
    assert set(states.values()) == {"added"}
    assert "shop/CLAUDE.md" not in states  # it only leads to the other one
    for path in (desk.project / name for name in (".mcp.json", ".cursor/mcp.json")):
        assert json.loads(path.read_text())["mcpServers"]["kgd"] == {"command": "kgd", "args": ["mcp"]}
    assert json.loads((desk.project / ".vscode/mcp.json").read_text())["servers"]["kgd"]["type"] == "stdio"
    assert str(desk.home) not in "".join(path.read_text() for path in desk.project.rglob("*.*") if path.is_file())
    assert set(desk.states("status", *clients).values()) == {"present"}

    assert set(desk.states("uninstall", *clients).values()) == {"removed"}
    assert desk.snapshot() == before


def test_without_notes_entries_are_recognised_by_their_text(desk: Desk) -> None:
    """As in a colleague's clone, to which the files came by git."""
    desk.write({"AGENTS.md": "# Rules\n", ".cursor/mcp.json": CURSOR}, desk.project)
    before = {name: text for name, text in desk.snapshot().items() if (Path(name)).is_file()}
    desk.states("install", "--client", "cursor")
    (desk.home / "kgd" / "state" / "agents.json").unlink()
    assert set(desk.states("uninstall").values()) == {"removed"}
    assert {name: text for name, text in desk.snapshot().items() if (Path(name)).is_file()} == before


def test_rule_files_are_made_only_where_that_is_asked_for(desk: Desk) -> None:
    assert desk.states("install", "--client", "claude,codex")["shop/AGENTS.md"] == "no file"
    assert not (desk.project / "CLAUDE.md").exists()
    states = desk.states("install", "--client", "claude,codex", "--create")
    assert (states["shop/AGENTS.md"], states["shop/CLAUDE.md"]) == ("added", "added")
    assert "context" in (desk.project / "AGENTS.md").read_text()
    desk.states("uninstall", "--client", "claude,codex")
    assert sorted(path.name for path in desk.project.iterdir()) == [".git"]


def test_files_that_cannot_be_edited_are_reported_and_the_rest_continues(desk: Desk) -> None:
    desk.write(
        {
            ".claude.json": '{\n "mcpServers": {\n  oops\n }\n}',
            ".claude/settings.json": "{}",
            ".cursor/mcp.json": '{"mcpServers": []}',
            ".cursor/hooks.json": "\xff\x00".encode("latin-1").decode("latin-1"),
            ".codex/config.toml": 'model = "open\n',
            ".codex/hooks.json": '{"hooks": 1}',
        }
    )
    (desk.home / ".cursor/hooks.json").write_bytes(b"\xff\xfe{}")
    (desk.home / ".claude/settings.json").chmod(0o444)
    before = desk.snapshot()
    done = desk.run("agents", "install", "--user", "--json")
    answer = json.loads(done.stdout)
    errors = {Path(one["path"]).name: one["error"] for one in answer["entries"] if "error" in one}
    assert done.returncode == 2
    assert errors[".claude.json"]["at"].endswith(".claude.json, line 3")
    assert errors["config.toml"]["at"].endswith("config.toml, line 1")
    assert "read-only" in errors["settings.json"]["message"]
    assert "not UTF-8" in json.dumps(answer)
    assert "mcpServers is not an object" in errors["mcp.json"]["message"]
    after = desk.snapshot()
    assert {name: after[name] for name in before} == {**before, **{n: after[n] for n in before if Path(n).is_dir()}}
    skills = [one for one in answer["entries"] if one["kind"] == "skill"]
    assert {one["state"] for one in skills} == {"added"}
    said = desk.run("agents", "install", "--user")
    assert "nothing was written to it" in said.stdout


def test_a_file_behind_a_link_is_edited_and_the_link_stays(desk: Desk) -> None:
    desk.write({"dotfiles/cursor.json": CURSOR})
    (desk.home / ".cursor").mkdir()
    (desk.home / ".cursor/mcp.json").symlink_to("../dotfiles/cursor.json")
    (desk.home / ".cursor/hooks.json").symlink_to("nowhere.json")
    before = desk.snapshot()
    states = desk.states("install", "--user")
    assert (states["me/.cursor/mcp.json"], states["me/.cursor/hooks.json"]) == ("added", "refused")
    assert (desk.home / ".cursor/mcp.json").is_symlink()
    assert "kgd" in json.loads((desk.home / "dotfiles/cursor.json").read_text())["mcpServers"]
    desk.states("uninstall", "--user")
    assert desk.snapshot() == before


def test_a_project_does_not_choose_by_a_link_which_file_of_mine_is_edited(desk: Desk) -> None:
    """A rule file checked in as a link to a start file of the shell would be executed."""
    desk.write({".bashrc": "# mine\n", "other/mcp.json": CURSOR})
    desk.write({"docs/rules.md": "# Rules\n"}, desk.project)
    (desk.project / "AGENTS.md").symlink_to(desk.home / ".bashrc")
    (desk.project / "CLAUDE.md").symlink_to("docs/rules.md")
    (desk.project / ".cursor").symlink_to(desk.home / "other")
    before = desk.snapshot()
    states = desk.states("install", "--client", "claude,cursor")
    refused = {"shop/AGENTS.md", "shop/.cursor/mcp.json", "shop/.cursor/hooks.json"}
    assert {path for path, state in states.items() if state == "refused"} == refused
    assert states["shop/CLAUDE.md"] == "added"
    assert (desk.home / ".bashrc").read_text() == "# mine\n"
    assert (desk.home / "other" / "mcp.json").read_text() == CURSOR
    desk.states("uninstall", "--client", "claude,cursor")
    assert desk.snapshot() == before


def test_a_users_own_entry_stays_and_is_reported(desk: Desk) -> None:
    own = '{"mcpServers": {"kgd": {"command": "kgd", "args": ["-C", "/home/me/shop", "mcp"]}}}'
    desk.write({".cursor/mcp.json": own, ".agents/skills/kgd/SKILL.md": "my own words\n"})
    before = desk.snapshot()
    states = desk.states("install", "--user")
    assert states == {
        "me/.cursor/mcp.json": "own",
        "me/.cursor/hooks.json": "added",
        "me/.agents/skills/kgd/SKILL.md": "own",
    }
    assert "yours, left unchanged" in desk.run("agents", "status", "--user").stdout
    desk.states("uninstall", "--user")
    assert desk.snapshot() == before


def test_shared_files_stay_until_the_last_host_is_removed(desk: Desk) -> None:
    desk.write({"AGENTS.md": "# Rules\n"}, desk.project)
    desk.states("install", "--client", "cursor,codex")
    states = desk.states("uninstall", "--client", "cursor")
    assert states == {"shop/.cursor/mcp.json": "removed", "shop/.cursor/hooks.json": "removed"}
    assert "kgd" in (desk.project / "AGENTS.md").read_text()
    assert desk.states("uninstall", "--client", "codex")["shop/AGENTS.md"] == "removed"
    assert (desk.project / "AGENTS.md").read_text() == "# Rules\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["install"], "none of the clients that kgd knows"),
        (["install", "--client", "zed"], "kgd cannot set up"),
        (["install", "--client", "cursor", "--user", "--project"], "cannot be combined"),
    ],
)
def test_wrong_arguments_are_refused(desk: Desk, words: list[str], says: str) -> None:
    done = desk.run("agents", *words)
    assert done.returncode == 2
    assert says in done.stderr


def test_the_environment_says_where_hosts_keep_their_files(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(desk.home / "c"))
    monkeypatch.setenv("CODEX_HOME", str(desk.home / "x"))
    done = desk.run("agents", "install", "--user", "--client", "claude,codex")
    assert done.returncode == 0, done.stderr
    made = {str(path.relative_to(desk.home)) for path in desk.home.rglob("*") if path.is_file()} - {
        "kgd/state/agents.json"
    }
    assert made == {
        "c/.claude.json",
        "c/settings.json",
        "c/skills/kgd/SKILL.md",
        "x/config.toml",
        "x/hooks.json",
        ".agents/skills/kgd/SKILL.md",
    }


def test_any_other_client_gets_its_entry_printed(desk: Desk) -> None:
    shown = desk.run("agents", "show").stdout
    assert '"mcpServers"' in shown
    assert "[mcp_servers.kgd]" in shown
    assert "prime --hook" in shown


def test_within_the_project_its_top_level_files_are_used(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("src/deep", ".kgd/nodes"):
        (desk.project / place).mkdir(parents=True)
    subprocess.run(["git", "init", "-q", desk.project / ".kgd"], check=True)
    for place in ("src/deep", ".kgd/nodes"):
        monkeypatch.chdir(desk.project / place)
        assert "shop/.cursor/mcp.json" in desk.states("status", "--client", "cursor")


def test_notes_that_cannot_be_kept_stop_nothing(desk: Desk) -> None:
    (desk.home / "kgd").write_text("no folder")
    desk.write({".cursor/mcp.json": CURSOR})
    assert set(desk.states("install", "--user").values()) == {"added"}
    assert set(desk.states("uninstall", "--user").values()) == {"removed"}
    assert (desk.home / ".cursor/mcp.json").read_text() == CURSOR
