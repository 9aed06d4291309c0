"""Make the built-in embedder's table: `python scripts/static_model.py MINILM PACKAGES OUT`.

MINILM is the folder of `scripts/minilm.sh`, the teacher. PACKAGES has one folder of unpacked documentation for each
Debian package of `DOCUMENTATION` and `WORDNET`. Sums of token vectors are fitted to the teacher's vectors of short
texts: by ridge regression towards the teacher's vectors of single tokens, then by gradient descent on cosines and on
the neighbours in a batch. No text of an evaluation set, and no documentation of its trees, may be in PACKAGES. Needs
onnxruntime and scipy; about an hour on one core, most of it for the teacher. The texts are chosen at random, so another
run gives a similar table, not the same.
"""

from __future__ import annotations

import gzip
import html
import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from scipy import sparse
from tokenizers import Tokenizer

WORDNET = "wordnet-base"
DOCUMENTATION = """
    apache2-doc aptitude-doc-en bind9-doc borgbackup-doc buildbot-doc cmake-doc cockpit-doc debian-handbook
    debian-policy developers-reference docker-doc erlang-doc exim4-doc-html fortunes ganeti-doc git-doc glance-doc
    golang-1.19-doc gradle-doc groovy-doc libgtk-4-doc libjs-bootstrap5-doc libokio-java-doc linux-doc-6.1
    mailman3-doc manpages manpages-dev mypy-doc neutron-doc nodejs-doc nova-doc openjdk-17-doc pacemaker-doc
    patroni-doc perl-doc pgbackrest-doc postfix-doc postgresql-doc-15 pylint-doc python-aiohttp-doc
    python-asyncssh-doc python-attr-doc python-click-doc python-coverage-doc python-cryptography-doc python-dask-doc
    python-distributed-doc python-flask-doc python-jinja2-doc python-pandas-doc python-peewee-doc python-pymongo-doc
    python-pytest-doc python-sqlalchemy-doc python-tornado-doc python-werkzeug-doc python3.11-doc rust-doc
    sphinx-doc sqlite3-doc
""".split()
DIM, TEXTS, OF_PACKAGE, OF_WORDNET, HELD_OUT = 256, 244_000, 3_500, 90_000, 1_000
LONGEST_FILE, LONGEST_BLOCK = 600_000, 5_000
RIDGE, STEPS, RARE = 0.3, 10, 3e-3
EPOCHS, BATCH, HEAT, NEIGHBOURS, RATE = 3, 768, 0.05, 0.7, 0.06
PADDING, UNKNOWN, FIRST_UNUSED, UNUSED = 0, 100, 104, 895
_READ = re.compile(r"\.(html?|xhtml|rst|md|txt|pod|[1-9]\w*)(\.gz)?$", re.IGNORECASE)
_OTHER_LANGUAGE = re.compile(r"[/.](zh|de|fr|es|ja|it|pt|ru|pl|ko|tr|nl|da|sv|cs|id|vi|fa|ar|ro|uk|nb)[-_./]")
_DROPPED = re.compile(r"<(script|style|pre|head|nav)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
_BLOCK = re.compile(
    r"</?(?:p|div|li|h[1-6]|dd|dt|td|th|tr|ul|ol|dl|br|table|section|title|body)\b[^>]*>", re.IGNORECASE
)
_TAG, _ROFF = re.compile(r"<[^>]+>"), re.compile(r"^\.\S*|\\f[A-Z]|\\&", re.MULTILINE)
_MARKUP, _WORD = re.compile(r":[a-z:]+:`~?|``?|\*\*|¶"), re.compile(r"[A-Za-z]{2,}")
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*[-*#|]\s)")
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+(?=[A-Z`\"'(])")
Floats = NDArray[np.float32]


def sentences(file: Path) -> Iterator[str]:
    packed = file.read_bytes()
    raw = gzip.decompress(packed) if file.suffix == ".gz" else packed
    text = raw[:LONGEST_FILE].decode("utf-8", "replace")
    if ".htm" in file.name or ".xhtml" in file.name:
        blocks = [html.unescape(_TAG.sub("", one)) for one in _BLOCK.split(_DROPPED.sub(" ", text))]
    else:
        blocks = _PARAGRAPH.split(_ROFF.sub("", text) if re.search(r"\.[1-9]\w*(\.gz)?$", file.name) else text)
    for block in blocks:
        plain = " ".join(_MARKUP.sub("", block).split()).strip(" #*-=|")
        for one in _SENTENCE.split(plain) if len(plain) <= LONGEST_BLOCK else ():
            words = _WORD.findall(one)
            is_prose = sum(map(len, words)) > 0.66 * len(one.replace(" ", ""))
            if 18 <= len(one) <= 320 and 2 <= len(words) <= 50 and is_prose and one.isascii():
                yield one


def definitions(wordnet: Path) -> Iterator[str]:
    """Synonyms with their meaning, and examples."""
    for name in ("noun", "verb", "adj", "adv"):
        for line in next(wordnet.rglob(f"data.{name}")).read_text().splitlines():
            head, _, meaning = line.partition(" | ")
            if line.startswith("  ") or not meaning:
                continue
            parts = head.split()
            words = [parts[4 + 2 * place].replace("_", " ").split("(")[0] for place in range(int(parts[3], 16))]
            said = [one.strip().strip('"') for one in meaning.strip().split(";")]
            yield from (f"{', '.join(words)}: {said[0]}"[:300], *said[1:])


def corpus(packages: Path) -> list[str]:
    """Short texts, in random order; texts of at most 105 characters first, since they teach more in the same time."""
    chance = random.Random(7)
    found: list[str] = []
    for package in (packages / name for name in (*DOCUMENTATION, WORDNET)):
        if package.name == WORDNET:
            texts, most = list(dict.fromkeys(definitions(package))), OF_WORDNET
        else:
            files = [one for one in sorted(package.rglob("*")) if one.is_file() and _READ.search(one.name)]
            plain = [one for one in files if not _OTHER_LANGUAGE.search(str(one))]
            texts, most = sorted({one for file in plain for one in sentences(file)}), OF_PACKAGE
        found += chance.sample(texts, min(most, len(texts)))
    chance.shuffle(found)
    return sorted(dict.fromkeys(found), key=lambda text: len(text) > 105)[:TEXTS]


class Teacher:
    def __init__(self, folder: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)
        self._inputs = [one.name for one in self._session.get_inputs()]

    def vectors(self, texts: Sequence[str], batch: int = 32) -> Floats:
        encoded = [one.ids[:96] for one in self.tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(texts)), key=lambda place: len(encoded[place]))
        found = np.zeros((len(texts), 384), np.float32)
        for start in range(0, len(order), batch):
            some = order[start : start + batch]
            ids = np.zeros((len(some), max(len(encoded[one]) for one in some)), np.int64)
            for row, one in enumerate(some):
                ids[row, : len(encoded[one])] = encoded[one]
            mask = (ids != PADDING).astype(np.int64)
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            out = self._session.run(None, {name: given[name] for name in self._inputs})[0]
            found[some] = (out * mask[:, :, None]).sum(1) if out.ndim == 3 else out
        return unit(found)


def unit(vectors: Floats) -> Floats:
    found: Floats = vectors / (np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-8)
    return found


def solved(counts: sparse.csr_matrix, wanted: Floats, prior: Floats) -> Floats:
    """Ridge regression towards a prior, by conjugate gradients with a diagonal preconditioner."""
    back, found = counts.T.tocsr(), prior.copy()
    diagonal = np.asarray(counts.multiply(counts).sum(0)).ravel()[:, None] + RIDGE
    rest = back @ (wanted - counts @ found)
    scaled = rest / diagonal
    step, size = scaled.copy(), (rest * scaled).sum(0)
    for _ in range(STEPS):
        bent = back @ (counts @ step) + RIDGE * step
        rate = size / ((step * bent).sum(0) + 1e-20)
        found += rate * step
        rest -= rate * bent
        scaled = rest / diagonal
        step, size = scaled + ((rest * scaled).sum(0) / (size + 1e-20)) * step, (rest * scaled).sum(0)
    return found


def tuned(table: Floats, counts: sparse.csr_matrix, wanted: Floats) -> Floats:
    """Adam on cosines and on the neighbours in a batch, with the tokens of the batch alone."""
    chance, mean, square, done = np.random.default_rng(0), np.zeros_like(table), np.zeros_like(table), 0
    scale, total = np.abs(table).mean() * RATE, EPOCHS * (counts.shape[0] // BATCH)
    for _ in range(EPOCHS):
        order = chance.permutation(counts.shape[0])
        for start in range(0, len(order) - BATCH + 1, BATCH):
            some, done = order[start : start + BATCH], done + 1
            used = np.unique(counts[some].indices)
            rows = counts[some][:, used]
            sums = rows @ table[used]
            lengths = np.linalg.norm(sums, axis=1, keepdims=True) + 1e-8
            own, other = sums / lengths, wanted[some]
            apart = (likely(own) - likely(other)) * (NEIGHBOURS * 0.05 / HEAT)
            slope = (apart + apart.T) @ own - other
            slope = rows.T @ ((slope - (slope * own).sum(1, keepdims=True) * own) / lengths) / BATCH
            mean[used] = 0.9 * mean[used] + 0.1 * slope
            square[used] = 0.99 * square[used] + 0.01 * slope**2
            step = mean[used] / (1 - 0.9**done) / (np.sqrt(square[used] / (1 - 0.99**done)) + 1e-12)
            table[used] -= scale * (1 - done / total) * step
    return table


def likely(vectors: Floats) -> Floats:
    near = vectors @ vectors.T / HEAT
    np.fill_diagonal(near, -1e4)
    near = np.exp(near - near.max(1, keepdims=True))
    found: Floats = near / near.sum(1, keepdims=True)
    return found


def made(teacher: Teacher, texts: Sequence[str]) -> Floats:
    """The table, one row for each token."""
    names = sorted(teacher.tokenizer.get_vocab().items(), key=lambda item: item[1])
    single = teacher.vectors([name.removeprefix("##") for name, _ in names])
    wanted = teacher.vectors(texts)
    wanted -= wanted.mean(0)
    best = np.linalg.eigh(wanted.T @ wanted)[1][:, ::-1][:, :DIM]
    wanted, single = unit(wanted @ best), (single - single.mean(0)) @ best
    pieces = [one.ids for one in teacher.tokenizer.encode_batch(list(texts), add_special_tokens=False)]
    places = np.cumsum([0, *map(len, pieces)])
    values = np.concatenate([np.full(len(own), max(1, len(own)) ** -0.5, np.float32) for own in pieces])
    counts = sparse.csr_matrix((values, np.concatenate(pieces).astype(int), places), (len(texts), len(names)))
    counts.sum_duplicates()
    having = np.asarray((counts > 0).sum(0)).ravel()
    single *= (RARE / (RARE + having / len(texts)))[:, None]
    used = np.flatnonzero(having)
    learned = counts[HELD_OUT:]
    sums = learned @ single
    single *= (sums * wanted[HELD_OUT:]).sum() / (sums**2).sum()
    single[used] = solved(learned[:, used], wanted[HELD_OUT:], single[used])
    table = tuned(single, learned, wanted[HELD_OUT:])
    print(f"cosine of held-out texts {(unit(counts[:HELD_OUT] @ table) * wanted[:HELD_OUT]).sum(1).mean():.3f}")
    lengths, rare = np.linalg.norm(table, axis=1), (having > 2) & (having < 10)
    table[having == 0] *= lengths[rare].mean() / lengths[having == 0].mean()
    table[[PADDING, UNKNOWN]] = 0
    table[FIRST_UNUSED : FIRST_UNUSED + UNUSED] = random_vectors(UNUSED) * np.median(lengths[lengths > 0])
    return table


def random_vectors(count: int) -> Floats:
    """The vectors of the characters of unknown words; see `kgd.vectors.builtin`."""
    return unit(np.random.default_rng(7).standard_normal((count, DIM)).astype(np.float32))


def main() -> int:
    minilm, packages, out = map(Path, sys.argv[1:])
    table = made(Teacher(minilm), corpus(packages))
    lengths = (np.abs(table).max(1) / 127).astype(np.float16)
    whole = np.where(lengths > 0, lengths, 1).astype(np.float32)[:, None]
    out.mkdir(parents=True, exist_ok=True)
    np.save(out / "rows.npy", np.round(table / whole).clip(-127, 127).astype(np.int8))
    np.save(out / "lengths.npy", lengths)
    tokenizer = json.loads((minilm / "tokenizer.json").read_text())
    tokenizer |= {"truncation": None, "padding": None, "post_processor": None}
    (out / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
