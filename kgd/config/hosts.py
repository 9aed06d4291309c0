"""Configuration folders of the agents' hosts, taken from the environment."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HostFolders:
    """Folders of one user. `claude_json` is a file; `code` is the folder of VS Code's settings."""

    home: Path
    claude: Path
    claude_json: Path
    codex: Path
    code: Path


def host_folders() -> HostFolders:
    """The folders, from `CLAUDE_CONFIG_DIR`, `CODEX_HOME` and the platform's defaults."""
    env = os.environ
    home = Path(env.get("HOME") or os.path.expanduser("~"))
    claude = env.get("CLAUDE_CONFIG_DIR")
    if sys.platform == "darwin":
        settings = home / "Library" / "Application Support"
    else:
        given = env.get("XDG_CONFIG_HOME", "")
        settings = Path(given) if os.path.isabs(given) else home / ".config"
    return HostFolders(
        home=home,
        claude=Path(claude) if claude else home / ".claude",
        claude_json=Path(claude) / ".claude.json" if claude else home / ".claude.json",
        codex=Path(env.get("CODEX_HOME") or home / ".codex"),
        code=settings / "Code" / "User",
    )
