"""Fields of a node and an operation are each one change of one file: made in a copy of the code, and used there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from kgd.codec import documents
from tests.conftest import ROOT
from tests.planting import NOT_OURS

WALKS = ("tests/tools", "tests/surfaces/test_schemas.py")
"""Tests that go over all operations."""


class Addition(NamedTuple):
    file: str
    before: str
    """The line after which the text is added; empty for a new file."""
    text: str
    tests: tuple[str, ...]


FIELDS = Addition(
    "kgd/model/node.py",
    '    NodeField("data", Shape.DATA, words="data"),\n',
    """\
    NodeField("owner", Shape.LINE, words="data", help="the person to ask"),
    NodeField("audience", Shape.NAMES, words="data", help="groups of readers"),
""",
    ("tests/surfaces/new_field.py", "tests/model/test_merge.py"),
)
OPERATION = Addition(
    "kgd/tools/read/count_types.py",
    "",
    '''\
"""The `count_types` tool."""

from __future__ import annotations

from collections import Counter

from typing_extensions import TypedDict

from kgd.model.access import Verb
from kgd.tools import addressing, visibility
from kgd.tools.operation import Command
from kgd.tools.operation import Hints, Operation
from kgd.tools.parameters import Params
from kgd.tools.session import Session


class CountParams(Params):
    workspace: str | None = None


class CountResult(TypedDict):
    workspace: str
    types: dict[str, int]


def count_types(session: Session, params: CountParams) -> CountResult:
    workspace = addressing.choose(session, params.workspace)
    sees = session.sight(workspace.id)
    cards = (workspace.graph.card(uri) for uri in workspace.graph.uris() if sees is None or sees(uri))
    return {"workspace": workspace.id, "types": Counter(card.type for card in cards if card)}


COUNT_TYPES = Operation(
    name="count_types",
    title="Count types",
    description="Counts the nodes of each type.",
    hints=Hints(read_only=True),
    run=count_types,
    offered="tasks",
    place=900,
    scope=Verb.READ,
    commands=(Command("Reading", "count the nodes of each type", place=45),),
)
''',
    ("tests/surfaces/new_operation.py",),
)


def _others(folder: str, names: list[str]) -> set[str]:
    """Names left out of the copy. Compiled files are copied, since compiling them takes longer than the tests."""
    return NOT_OURS(folder, names) - {"__pycache__"}


def run(place: Path, *words: str) -> None:
    done = subprocess.run([sys.executable, "-m", *words], cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_one_changed_file_reaches_every_surface(tmp_path: Path) -> None:
    """Both additions share one copy, since most of their tests are the same."""
    place = Path(shutil.copytree(ROOT, tmp_path / "copy", ignore=_others))
    for addition in (FIELDS, OPERATION):
        file = place / addition.file
        text = file.read_text() if addition.before else ""
        assert text.count(addition.before) == 1 or not text
        file.write_text(text.replace(addition.before, addition.before + addition.text))
    run(place, "kgd.tools.reference", "docs/mcp.md")
    run(place, "pytest", "-q", "-x", "-p", "no:cacheprovider", *FIELDS.tests, *OPERATION.tests, *WALKS)


def test_an_earlier_version_keeps_the_fields() -> None:
    later = b"uri: concept://shop/a\ndata:\n  x: 1\naudience:\n- dev\nowner: Ann\n"
    node = documents.decode(later)
    assert node.others == {"audience": ["dev"], "owner": "Ann"}
    assert documents.encode(node) == later
