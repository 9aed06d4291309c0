"""Whatever a person wrote into a note or a rule comes out as it was, once it is stored."""

from __future__ import annotations

from hypothesis import assume, example, given
from hypothesis import strategies as st

from kgd.areas.patterns import check_pattern
from kgd.codec import documents, front_matter
from kgd.errors import KgdError
from kgd.exchange import Reading, View, Wanted, digest, noted, rules, vault
from kgd.exchange.rules import Rules
from kgd.exchange.vault import Vault
from kgd.model.node import Node
from kgd.model.uri import Uri

PIECES = st.sampled_from(
    [
        "---\n",
        "---",
        "\n",
        "\r\n",
        "tags: [a, b]\n",
        "tags:\n- x\n",
        "title: T\n",
        "summary: s\n",
        "up: '[[B]]'\n",
        "status: null\n",
        "a: {b: null, c: 1.50}\n",
        "date: 2024-01-01\n",
        "no: yes\n",
        "kgd: x\n",
        "aliases: c, d\n",
        "[[A]]",
        "![[B|c]]",
        "#tag ",
        "# Head\n",
        "text ",
        "\t",
        "\u2028",
        "\x07",
        "\ufeff",
        "[x](a.md)",
        "é",
        "e\u0301",
        "globs: *.py,src/**\n",
        "paths:\n  - **/a\n",
        "applyTo: '**'\n",
        "alwaysApply: true\n",
        "description: d\n",
        "<!-- kgd: end -->",
        "&a ",
        "*a\n",
        "imported: 1\n",
        "file: x\n",
        "vault: y\n",
        "rule: z\n",
    ]
)
TEXTS = st.one_of(
    st.lists(PIECES, max_size=12).map("".join),
    st.lists(PIECES, max_size=8).map(lambda some: f"---\n{''.join(some)}\n---\nbody"),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)


class Stored:
    id = "w"

    def __init__(self, *nodes: Node) -> None:
        self.nodes = {node.uri: node for node in nodes}

    def is_broken(self, target: Uri) -> bool:
        return target not in self.nodes

    def node(self, uri: Uri) -> Node | None:
        return self.nodes.get(uri)

    def resolve(self, uri: Uri) -> Uri:
        return uri


def kept(wanted: Wanted) -> tuple[View, Node]:
    """The node as it comes back from disk, and a view of it."""
    node = noted(wanted).node
    try:
        stored = documents.decode(documents.encode(node))
    except KgdError:
        assume(False)
    return View(Stored(stored), [stored.uri]), stored


@given(TEXTS)
@example("---\n---\n---\n")
@example("---\ntags: [a]\n---\n---\nx: y\n---\n")
def test_a_note_that_was_not_edited_has_its_bytes(text: str) -> None:
    page = front_matter.read(text)
    wanted = Vault("notes", Reading("w")).wanted("d/A", page)
    assume(wanted is not None and not wanted.base)
    assert wanted is not None
    view, stored = kept(wanted)
    (file,) = vault.write(view).files
    assert (file.path, file.data) == ("d/A.md", text.encode())
    assert digest(stored) == stored.data["imported"]


@given(
    TEXTS,
    st.sampled_from(
        [
            ".cursor/rules/a.mdc",
            ".claude/rules/a.md",
            "CLAUDE.md",
            "d/AGENTS.md",
            ".github/instructions/a.instructions.md",
        ]
    ),
)
def test_a_rule_that_was_not_edited_has_its_bytes(text: str, path: str) -> None:
    wanted = Rules(Reading("w", check_pattern=check_pattern)).wanted(path, text)
    assume(wanted is not None)
    assert wanted is not None
    view, stored = kept(wanted)
    (file,) = rules.write_back(view).files
    assert (file.path, file.data) == (path, text.encode())
    assert digest(stored) == stored.data["imported"]
