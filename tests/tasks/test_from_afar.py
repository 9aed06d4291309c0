"""A task of another team, read from a clone of its workspace, is shown with all characters visible."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.across.conftest import site
from tests.across.sites import Site
from tests.surfaces.conftest import upsert
from tests.waiting import until

__all__ = ["site"]


def test_invisible_characters_in_foreign_tasks_are_shown(site: Callable[[str], Site], tmp_path: Path) -> None:
    team, here, bare = site("team"), site("here"), tmp_path / "infra.git"
    sections = [{"title": "Context Files", "content": "bus/a.py"}, {"title": "Notes\u200b", "content": "Known\u202e."}]
    task = {"name": "Fix", "summary": "rotate\u200b keys", "data": {"sections": sections}}
    area = {"content": "Bus\u2066.", "data": {"paths": ["bus/**"]}}
    team.up("infra", upsert("task://infra/fix", **task), upsert("atom://infra/bus", **area))
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    push = ["push", "-q", str(bare), "refs/kgd/head:refs/heads/main"]
    subprocess.run(["git", "-C", str(team.root / "infra"), *push], check=True)
    here.up("shop", upsert("concept://shop/a", relations=[{"type": "uses", "target": "task://infra/fix"}]))
    here.know("infra", remote=str(bare))
    until(lambda: len(here.ask("traverse", start=["concept://shop/a"])["nodes"]) == 2)
    got = here.ask("query_container", operation="get", id="fix", workspace="infra", includeGraphContext=True)["data"]
    listed = here.ask("query_container", operation="search", workspace="infra")["data"]["tasks"]
    assert got["task"] == listed[0]
    assert got["task"]["summary"] == "rotate\\u200b keys"
    assert got["sections"][1] == {"title": "Notes\\u200b", "content": "Known\\u202e."}
    assert got["graphContext"]["orphanAtoms"][0]["knowledge"] == "Bus\\u2066."
