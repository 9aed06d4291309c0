"""`python -m bench.finding FOLDER`: fetch the trees into the folder, fill a workspace for each, ask all questions.

Printed for each tree and for all: the share of questions with the answer in the first three of its list (knowledge by
`search` and by `context`, as a question and as a task; identifiers by `search`), the recall in the first five of error
texts and "which file" questions beside FTS5 over whole files, false answers to questions that nothing answers,
questions without any answer, and characters and tokens (of the built-in embedder's tokenizer) of an answer as sent
(text and structured content).
`--chunks` ingests prose beside the notes, `--holdout` asks the hold-out set instead, for the final check only;
`--further` asks further questions about the same notes, and `--near` questions near the subject that none of them
answers. `--unseen` asks about another tree, for the final
check too. `--documented` adds documentation and tests to the trees. `--embedder` measures another model.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from bench import RESULTS
from bench.finding import sets
from bench.finding.filled import Filled, as_sent
from bench.finding.prose import pages_of
from bench.finding.scoring import AT, FIRST, Asked, is_answer, lists, mean, rank, share
from bench.finding.sets import Question, Set
from bench.finding.trees import AGENTS, TREES, UNSEEN, Tree, fetched, prose
from bench.finding.whole_files import WholeFiles
from kgd.vectors.builtin import TOKENIZER

ASKED = {"search": ("search", "query"), "context": ("context", "question"), "task": ("context", "task")}
"""The ways to ask: the tool, and the parameter that the question goes into. Everything else is at its default."""


def ask(filled: Filled, question: Question, way: str) -> Asked:
    tool, parameter = ASKED[way]
    begun = time.perf_counter()
    answer = filled.call(tool, {parameter: question.text})
    took = (time.perf_counter() - begun) * 1000
    knowledge, code = lists(answer)
    node = filled.uri(question.answer) if question.answer else ""
    about_code = question.kind in sets.CODE_KINDS
    found = rank(code if about_code and code is not None else knowledge, is_answer(question, node))
    return Asked(question, knowledge, code, found, took, as_sent(tool, answer), _follow_up(filled, node, knowledge))


def _follow_up(filled: Filled, node: str, knowledge: Sequence[dict[str, object]]) -> str:
    """The `get` of the answer, unless its whole text was in the hit; empty if it was not among the hits."""
    hit = next((one for one in knowledge if one["uri"] == node), None)
    if hit is None:
        return ""
    answer = filled.call("get", {"uris": [node]})
    text = " ".join(filled.content(node).split())
    shown = (" ".join(str(hit.get(key, "")).split()) for key in ("text", "snippet", "summary"))
    return "" if any(text in one for one in shown) else as_sent("get", answer)


class Report:
    """The figures of one tree, or of all together."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.asked: dict[str, list[Asked]] = {tool: [] for tool in ASKED}
        self.plain: list[tuple[Question, int | None]] = []
        self._tokenizer = tokenizer

    def __iadd__(self, other: Report) -> Report:
        for tool, found in other.asked.items():
            self.asked[tool] += found
        self.plain += other.plain
        return self

    def lines(self) -> Iterator[str]:
        for tool in ASKED:
            yield from self._knowledge(tool)
        if named := self._of("search", "identifiers"):
            yield self._row("identifiers: first 3", named, FIRST)
        for label, kinds in (("errors", ("errors",)), ("files", ("files",)), ("both", ("errors", "files"))):
            plain = [place for one, place in self.plain if one.kind in kinds]
            for places in (FIRST, AT) if plain else ():
                theirs = share(place is not None and place <= places for place in plain)
                ours = self._row(f"{label}: first {places}", self._of("search", *kinds), places)
                yield f"{ours}; FTS5 over whole files {theirs:.1%}"
        for tool in ASKED:
            yield from self._others(tool)

    def _of(self, tool: str, *kinds: str) -> list[Asked]:
        return [one for one in self.asked[tool] if one.question.kind in kinds]

    def _row(self, label: str, found: Sequence[Asked], places: int) -> str:
        return f"  {label:34} {share(one.within(places) for one in found):6.1%} of {len(found)}"

    def _knowledge(self, tool: str) -> Iterator[str]:
        found = self._of(tool, "knowledge")
        apart = [one for one in found if one.question.apart]
        alone = f"without a common word {share(one.within(FIRST) for one in apart):.1%} of {len(apart)}"
        yield f"{self._row(f'knowledge, {tool}: first 3', found, FIRST)}; {alone}"

    def _others(self, tool: str) -> Iterator[str]:
        nothing = self._of(tool, "nothing")
        false = sum(bool(one.knowledge) for one in nothing)
        coded = sum(bool(one.code) for one in nothing)
        yield f"  {f'nothing answers, {tool}':34} {false} false answers of {len(nothing)}, {coded} with code"
        rest = self._of(tool, "knowledge", *sets.CODE_KINDS)
        yield f"  {f'answered with nothing, {tool}':34} {share(not one.listed for one in rest):6.1%} of {len(rest)}"
        everything = self.asked[tool]
        tokens = mean(self._tokens(one.sent) for one in everything)
        yield (
            f"  {f'size of an answer, {tool}':34} {mean(len(one.sent) for one in everything):,.0f} characters, "
            f"{tokens:,.0f} tokens; {mean(one.milliseconds for one in everything):.1f} ms"
        )
        known = [one for one in self._of(tool, "knowledge") if one.within(FIRST)]
        if known:
            spent = sum(self._tokens(one.sent) for one in self._of(tool, "knowledge"))
            spent += sum(self._tokens(one.follow_up) for one in known)
            yield f"  {f'per answered question, {tool}':34} {spent / len(known):,.0f} tokens with the get that follows"

    def _tokens(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def misses(self) -> Iterator[str]:
        """Each question whose answer is not among the first, with the first five of its list."""
        for tool, found in self.asked.items():
            for one in found:
                if one.question.kind == "nothing" and not one.knowledge:
                    continue
                if one.within(AT if one.question.kind in ("errors", "files") else FIRST):
                    continue
                if tool != "search" and one.question.kind not in ("knowledge", "nothing"):
                    continue
                right = one.question.answer or ", ".join(one.question.paths) or "nothing"
                place = f"at {one.rank}" if one.rank else "absent"
                yield f"  {tool}, {one.question.kind}: {one.question.text}  [{right}: {place}]"
                for number, hit in enumerate(one.listed[:AT], 1):
                    yield f"      {number} {hit['uri']}  {hit.get('score', '')} ({_reasons(hit)})"


def _reasons(hit: dict[str, object]) -> str:
    why = hit.get("why", "")
    return "; ".join(map(str, why)) if isinstance(why, list) else str(why)


def measured(
    tree: Tree,
    found: Set,
    folder: Path,
    chunks: int,
    tokenizer: Tokenizer,
    embedder: str = "builtin",
    *,
    documented: bool = False,
) -> Report:
    """Fill a workspace and ask everything."""
    archive = fetched(tree, folder)
    with tempfile.TemporaryDirectory(prefix="kgd-bench-", ignore_cleanup_errors=True) as place:
        begun = time.monotonic()
        filled = Filled(Path(place), tree, archive, embedder, documented=documented)
        try:
            filled.write(found.nodes)
            pages = pages_of(prose(tree, archive), filled.code, tree.suffix) if chunks else {}
            there = filled.ingest_prose(pages, chunks)
            filled.settle()
            plain, report = WholeFiles(filled.code, tree.suffix), Report(tokenizer)
            print(
                f"\n{tree.name}: {plain.files:,} files, {len(found.nodes)} nodes, {there:,} chunks of prose, "
                f"ready after {time.monotonic() - begun:.0f} s",
                flush=True,
            )
            ask(filled, found.questions[0], "search")  # the first call loads the model
            for question in found.questions:
                for tool in ASKED:
                    report.asked[tool].append(ask(filled, question, tool))
                if question.paths:
                    listed = ({"uri": f"file://{filled.id}/{path}"} for path in plain.ask(question.text, 50))
                    report.plain.append((question, rank(listed, is_answer(question, ""))))
            return report
        finally:
            filled.close()


def main() -> int:
    options = _options()
    logging.disable(logging.WARNING)
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    tokenizer.no_truncation()
    together = Report(tokenizer)
    own = "unseen" if options.unseen else "agents" if options.agents else ""
    every = {"unseen": UNSEEN, "agents": AGENTS}.get(own, TREES)
    trees = {name: tree for name, tree in every.items() if not options.tree or name in options.tree}
    for name, tree in trees.items():
        which = {one: getattr(options, one) for one in ("holdout", "further", "near")}
        found = sets.read(name, **which, own=own)
        folder, documented = options.folder.resolve(), options.documented
        report = measured(tree, found, folder, options.chunks, tokenizer, options.embedder, documented=documented)
        print("\n".join([*report.lines(), *(report.misses() if options.misses else ())]), flush=True)
        together += report
    if len(trees) > 1:
        print("\nall trees")
        print("\n".join(together.lines()))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.finding", description="finding what a team knows")
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=RESULTS / "trees",
        help=f"where the packages are, or are fetched to (default: {RESULTS.name}/trees)",
    )
    parser.add_argument(
        "--tree", action="append", choices=[*TREES, *AGENTS, *UNSEEN], help="only this tree; may be repeated"
    )
    parser.add_argument("--chunks", type=int, default=0, metavar="N", help="chunks of prose beside the notes")
    parser.add_argument("--holdout", action="store_true", help="the hold-out set, for the final check only")
    parser.add_argument("--further", action="store_true", help="the further questions about the same notes")
    parser.add_argument("--near", action="store_true", help="questions near the subject that no note answers")
    parser.add_argument("--unseen", action="store_true", help="the set of an unseen tree, for the final check only")
    parser.add_argument("--agents", action="store_true", help="queries of agents about three more trees")
    parser.add_argument("--documented", action="store_true", help="add documentation and tests to the trees")
    parser.add_argument("--embedder", default="builtin", help="the setting `embedder`, such as {kind: onnx, dir: PATH}")
    parser.add_argument("--misses", action="store_true", help="list each miss with the first five")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
