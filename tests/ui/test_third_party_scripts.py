"""Third-party scripts of the pages are listed, and equal the published files."""

from __future__ import annotations

import hashlib
import tomllib

from kgd.ui import rendering
from tests.conftest import ROOT

STATIC = ROOT / "kgd/ui/static"
SHIPPED = tomllib.loads((STATIC / "SHIPPED.toml").read_text())


def test_third_party_scripts_have_the_listed_digests() -> None:
    for name, told in SHIPPED.items():
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == told["sha256"], name
        assert set(told) == {"package", "version", "file", "licence", "home", "sha256"}
        assert told["version"] in (ROOT / "docs/decisions/0022-pages.md").read_text(), f"{name} has another version"


def test_every_script_is_listed_or_readable_source() -> None:
    ours = [place for place in STATIC.glob("*.js") if place.name not in SHIPPED]
    assert ours
    for place in ours:
        lines = place.read_text().splitlines()
        assert lines[0].startswith("// "), f"{place.name} states its purpose"
        assert max(map(len, lines)) <= 160, f"{place.name} is written by hand, or listed in SHIPPED.toml"


def test_every_static_file_is_loaded_by_a_page() -> None:
    assert {place.name for place in STATIC.iterdir()} == {*rendering.STATIC, "SHIPPED.toml"}
