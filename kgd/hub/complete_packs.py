"""The check that pushes of restricted tokens contain all objects that they refer to.

Git accepts a pack whose objects are deltas against, or refer to, any object of the repository. The holder of a token
that may read only a part could use this to test whether a guessed text exists. Such pushes are therefore unpacked
separately first, and an omitted object must exist at the same path in a commit that the token may build on.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from kgd.errors import Damaged, Forbidden, Invalid, KgdError, Limit
from kgd.git import http_backend, pack, program
from kgd.git.incoming import scratch_repository
from kgd.git.objects import FOLDER, ObjectId
from kgd.git.refs import list_refs
from kgd.git.store import ObjectStore
from kgd.model.token import TokenRecord
from kgd.workspace.proposals.proposals import open_proposals
from kgd.workspace.workspace import Workspace

SUBMODULE = b"160000"
COMMANDS_LIMIT = 1 << 20
UPDATES_LIMIT = 64
SECONDS = 300.0
NO_THIN = b" no-thin"
"""The capability that makes a client send whole objects."""


def others(workspace: Workspace, record: TokenRecord) -> list[str]:
    """The branches hidden from the holder of this token: all except the workspace's branch and the holder's own
    proposals."""
    mine = {name for name, (_, origin) in open_proposals(workspace).items() if origin.is_of(record.holder)}
    return [
        name
        for name in list_refs(workspace.layout.git_dir, "refs/heads/")
        if name != workspace.layout.branch and name not in mine
    ]


def asking_for_whole_objects(advertised: bytes) -> bytes:
    """The answer to `info/refs`, with the capability `no-thin` added to the first ref."""
    start = int(advertised[:4], 16) + 4  # after the service line and a flush
    while (size := int(advertised[start : start + 4] or b"0", 16)) >= 4:
        line = advertised[start + 4 : start + size]
        if b"\0" in line:
            return advertised[:start] + _packet(line.rstrip(b"\n") + NO_THIN + b"\n") + advertised[start + size :]
        start += size  # the protocol version
    return advertised


def check(body: IO[bytes], workspace: Workspace, record: TokenRecord, place: Path) -> None:
    """Check that a push is complete. `body` is at its start before and after the call; `place` is for scratch files.

    Raises:
        Forbidden: The push omits objects, whether or not the repository has them.
        Invalid: The body is not a push.
    """
    scratch = scratch_repository(place)
    try:
        news = [new for new, _ in _asked(body)[1] if any(new)]
        _Push(_unpacked(body, scratch), ObjectStore(scratch), workspace, record).check(news)
    except (Damaged, Limit, ValueError, IndexError):
        raise _left_out() from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        body.seek(0)


class _Push:
    def __init__(self, ids: frozenset[ObjectId], sent: ObjectStore, workspace: Workspace, record: TokenRecord) -> None:
        self._ids, self._sent, self._home = ids, sent, workspace.store
        mine = [tip for tip, origin in open_proposals(workspace).values() if origin.is_of(record.holder)]
        branch = workspace.store.ref(workspace.layout.branch)
        self._tips = [*([branch] if branch else []), bytes.fromhex(workspace.tip), *mine]

    def check(self, news: Iterable[ObjectId]) -> None:
        kinds = ((id, self._sent.kind_and_size(id)) for id in self._ids)
        commits = [self._sent.commit(id) for id, kind in kinds if kind is not None and kind[0] == "commit"]
        needed = {*news, *(parent for commit in commits for parent in commit.parents)} - self._ids
        if not all(map(self._may_build_on, needed)):
            raise _left_out()
        before = list({self._home.tree_of(id) for id in needed})
        for commit in commits:
            self._check_tree(commit.tree, before)

    def _may_build_on(self, id: ObjectId) -> bool:
        kind = self._home.kind_and_size(id)
        return kind is not None and kind[0] == "commit" and any(self._home.is_ancestor(id, tip) for tip in self._tips)

    def _check_tree(self, root: ObjectId, before: Sequence[ObjectId]) -> None:
        """Check that each object in a tree is in the push, or at the same path in a tree that the push builds on."""
        waiting = [(root, list(before))]
        while waiting:
            tree, parents = waiting.pop()
            if tree in parents:
                continue
            if tree not in self._ids:
                raise _left_out()
            folders = [self._home.tree(one) for one in parents]
            for name, (mode, id) in self._sent.tree(tree).items():
                known = [folder[name] for folder in folders if name in folder]
                if (mode, id) in known or mode == SUBMODULE:  # submodules are refused later
                    continue
                if mode == FOLDER:
                    waiting.append((id, [one for kind, one in known if kind == FOLDER]))
                elif id not in self._ids:
                    raise _left_out()


def refusal(body: IO[bytes], error: KgdError) -> bytes:
    """The answer to a push that was refused before git received it, in git's protocol."""
    capabilities, updates = _asked(body)
    reason = f"{error.message[:120]}\n".encode()
    lines = [b"unpack " + reason, *(b"ng %s %s" % (ref, reason) for _, ref in updates[:UPDATES_LIMIT])]
    report = b"".join(map(_packet, lines)) + b"0000"
    if b"side-band-64k" not in capabilities:
        return report
    return _packet(b"\2" + f"{error}\n".encode()) + _packet(b"\1" + report) + b"0000"


def _packet(data: bytes) -> bytes:
    return b"%04x" % (len(data) + 4) + data


def _asked(body: IO[bytes]) -> tuple[bytes, list[tuple[ObjectId, bytes]]]:
    """The client's capabilities and the new value of each ref; `body` is then positioned at the pack."""
    found, capabilities, read = list[tuple[ObjectId, bytes]](), b"", 0
    while size := int(body.read(4) or b"0", 16):
        line, _, more = body.read(size - 4).partition(b"\0")
        capabilities, read = capabilities or more, read + size
        if size < 4 or read > COMMANDS_LIMIT:
            raise Invalid("this is not a push")
        words = line.rstrip(b"\n").split(b" ", 2)
        if len(words) == 3:
            found.append((bytes.fromhex(words[1].decode()), words[2]))
    return capabilities, found


def _unpacked(body: IO[bytes], scratch: Path) -> frozenset[ObjectId]:
    stem = scratch / "objects" / "pack" / "pack-sent"
    with open(stem.with_suffix(".pack"), "wb") as file:
        shutil.copyfileobj(body, file)
        if not file.tell():
            return frozenset()
    bounds = program.Bounds(
        SECONDS, SECONDS, memory_bytes=http_backend.MEMORY_LIMIT, file_bytes=http_backend.FILE_LIMIT
    )
    try:
        program.run(scratch, ["index-pack", str(stem.with_suffix(".pack"))], bounds=bounds)
    except program.GitFailed:
        raise _left_out() from None
    return frozenset(pack.ids_of(stem))


def _left_out() -> KgdError:
    return Forbidden(
        "the push leaves out objects that this token may not read",
        next="Base your commits on the branch that `git ls-remote` shows, and push with `--no-thin`.",
    )
