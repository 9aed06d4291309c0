"""The evaluation sets: one YAML file for each code tree, in `sets` for daily use and in `holdout` for the final check.

`further` has more questions about the notes of `sets`. `near` has questions about the subject of a tree that no note
answers. `unseen` has notes and questions about a tree that no other set uses. `agents` has notes of three more trees,
and queries as agents write them: about half are keywords.

`nodes` are notes of a team. `questions` are answered by one of them each. `identifiers`, `errors` and `files` are
answered by a file, identifiers also by a symbol. Nothing in the workspace answers `nothing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

HERE = Path(__file__).parent
CODE_KINDS = ("identifiers", "errors", "files")


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `answer` is a node, `paths` are files of which each is an answer; neither if nothing answers it."""

    kind: str
    text: str
    answer: str = ""
    apart: bool = False
    paths: tuple[str, ...] = ()
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Set:
    """The nodes and the questions about one tree."""

    tree: str
    nodes: tuple[dict[str, Any], ...]
    questions: tuple[Question, ...]

    def of(self, *kinds: str) -> list[Question]:
        return [one for one in self.questions if one.kind in kinds]


def read(tree: str, *, holdout: bool = False, further: bool = False, near: bool = False, own: str = "") -> Set:
    """The set of a tree. The hold-out set has its own questions, and all nodes.

    `own` is a folder of sets with their own nodes.
    """
    if own:
        kept = _loaded(own, tree)
        return Set(tree, tuple(kept["nodes"]), tuple(_questions(kept)))
    usual = _loaded("sets", tree)
    if further or near:
        return Set(tree, tuple(usual["nodes"]), tuple(_questions(_loaded("further" if further else "near", tree))))
    if not holdout:
        return Set(tree, tuple(usual["nodes"]), tuple(_questions(usual)))
    kept = _loaded("holdout", tree)
    return Set(tree, (*usual["nodes"], *kept["nodes"]), tuple(_questions(kept)))


def words_of(node: dict[str, Any]) -> str:
    """Everything written in a node that a question could share a word with."""
    lists = (*node.get("tags", ()), *node.get("paths", ()), *node.get("cites", ()))
    return " ".join((node["uri"].partition(":")[2], node["name"], node["content"], *lists))


def _loaded(folder: str, tree: str) -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe").load((HERE / folder / f"{tree}.yaml").read_text())
    return loaded


def _questions(loaded: dict[str, Any]) -> list[Question]:
    found = [
        Question("knowledge", one["question"], answer=one["answer"], apart=one.get("apart", False))
        for one in loaded["questions"]
    ]
    for kind in CODE_KINDS:
        for one in loaded.get(kind, ()):
            paths = one["path"] if isinstance(one["path"], list) else [one["path"]]
            found.append(Question(kind, one["query"], paths=tuple(paths), symbol=one.get("symbol", "")))
    return found + [Question("nothing", one) for one in loaded["nothing"]]
