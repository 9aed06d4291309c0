"""Adoption of a teammate's workspace: `kgd up` looks for one on the code's remotes before it creates a workspace.

The code repository is not changed: fetched objects go straight into the workspace's own repository.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kgd.errors import Damaged, Limit, NotFound, Refused, Unavailable
from kgd.git import creation, program, refs
from kgd.git import layout as layouts
from kgd.git.discovery import Place, find_place
from kgd.git.layout import CODE_BRANCH, Layout
from kgd.git.objects import FILE, ObjectId
from kgd.git.store import ObjectStore

WHERE = (CODE_BRANCH, "refs/kgd/main")
"""Refs of the code's remote under which a workspace may be, in this order."""
DEADLINE = 10.0
"""Seconds for a query to a remote. Fetching an existing workspace may take longer."""
FETCH_DEADLINE = 300.0
FILE_LIMIT = 1 << 20
"""Maximum bytes of an adopted file; the guard of the codec is stricter."""
_INCOMING = "refs/kgd/incoming"
_Allow = Callable[[ObjectStore, ObjectId], None]


@dataclass(frozen=True, slots=True)
class Adopted:
    """The outcome of asking the remotes. If `layout` is None, no remote that could be reached has a workspace.

    `remote` and `ref` name the place where it was found. `unreachable` is the reason why a remote could not be asked;
    that remote may still have a workspace.
    """

    layout: Layout | None = None
    remote: str = ""
    ref: str = ""
    unreachable: str = ""


def adopt(
    directory: Path, *, environment: Mapping[str, str], deadline: float = DEADLINE, allow: _Allow | None = None
) -> Adopted:
    """Adopt the workspace that a remote of the code repository already has, with all its history.

    Asks the remotes, ``origin`` first, then looks for the branch that an earlier ``git fetch`` left in this repository.
    Afterwards either the workspace is as complete as one from `create_in_code_repository`, or nothing has changed.

    Args:
        environment: The user's own, with their credentials and ssh agent. The user is never prompted.
        allow: Called with the fetched store and its tip before anything is kept; an exception leaves nothing behind.

    Raises:
        NotFound: There is no git repository.
        Refused: The workspace holds files that kgd cannot keep (links, submodules, other modes, too large files).
    """
    place = find_place(directory)
    if place is None:
        raise NotFound("there is no git repository here", at=str(directory), next="Run `git init` first.")
    found = layouts.locate(directory)
    if found is not None:
        return Adopted(found)
    end, unreachable = time.monotonic() + deadline, ""
    for name in _remotes(place):
        try:
            ref = _ask(place, name, environment, end)
            if ref:
                url = _url(place, name, environment)
                return Adopted(_take(place, url, ref, environment, allow), name, ref)
        except (Unavailable, Limit, program.GitFailed) as error:
            unreachable = unreachable or f"{name}: {error}"
        tracked = f"refs/remotes/{name}/{CODE_BRANCH.removeprefix('refs/heads/')}"
        if refs.read_ref(place.common_dir, tracked):
            made = _take(place, str(place.common_dir), tracked, environment, allow)
            return Adopted(made, name, CODE_BRANCH, unreachable)
    return Adopted(unreachable=unreachable)


def code_remotes(directory: Path, *, environment: Mapping[str, str]) -> dict[str, str]:
    """Names and addresses of the remotes of the repository that holds a directory, ``origin`` first.

    Args:
        environment: The user's own, whose git configuration may rewrite addresses.
    """
    found: dict[str, str] = {}
    if place := find_place(directory):
        for name in _remotes(place):
            with contextlib.suppress(program.GitFailed):
                found[name] = _url(place, name, environment)
    return found


def _remotes(place: Place) -> list[str]:
    """Names of the code's remotes, ``origin`` first."""
    with contextlib.suppress(program.GitFailed):
        names = program.run(place.common_dir, ["remote"]).decode("utf-8", "surrogateescape").split()
        return sorted(names, key=lambda name: (name != "origin", name))
    return []


def _ask(place: Place, remote: str, environment: Mapping[str, str], end: float) -> str | None:
    left = max(0.1, end - time.monotonic())
    arguments = ["ls-remote", "--quiet", "--", remote, *WHERE]
    output = program.run(
        place.common_dir, arguments, deadline=left, limit=1 << 20, cwd=_cwd(place), environment=environment
    )
    there = {line.split("\t")[1] for line in output.decode("utf-8", "replace").splitlines() if "\t" in line}
    return next((ref for ref in WHERE if ref in there), None)


def _url(place: Place, remote: str, environment: Mapping[str, str]) -> str:
    output = program.run(place.common_dir, ["remote", "get-url", remote], cwd=_cwd(place), environment=environment)
    url = output.decode("utf-8", "surrogateescape").strip()
    local = _cwd(place) / url
    return str(local.resolve()) if "://" not in url and local.exists() else url


def _cwd(place: Place) -> Path:
    """The directory to which git resolves relative URLs."""
    return place.main_tree or place.common_dir


def _take(place: Place, source: str, ref: str, environment: Mapping[str, str], allow: _Allow | None) -> Layout:
    made = layouts.code_layout(place)
    creation.check_place_is_free(place, made)
    creation.build_repository(made, lambda half: _fill(half, made, source, ref, environment, allow))
    creation.finish(place, made)
    return made


def _fill(
    half: Path, layout: Layout, source: str, ref: str, environment: Mapping[str, str], allow: _Allow | None
) -> None:
    """Fetch into the unfinished repository. Objects are vetted before a permanent ref points to them."""
    arguments = ["-c", "fetch.unpackLimit=1", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--refmap="]
    arguments += ["--no-auto-maintenance", "--", source, f"+{ref}:{_INCOMING}"]
    program.run(half, arguments, deadline=FETCH_DEADLINE, environment=environment)
    tip = refs.read_ref(half, _INCOMING)
    if tip is None:
        raise Unavailable("the remote's workspace disappeared during the fetch", at=source)
    fetched = ObjectStore(half, layout.work_tree)
    vet(fetched, tip)
    if allow is not None:
        allow(fetched, tip)
    for name in (refs.HEAD, layout.branch):
        refs.move_ref(half, half / "kgd", name, None, tip, note=f"kgd: adopted {ref}")
    (half / _INCOMING).unlink()
    (half / "logs" / _INCOMING).unlink(missing_ok=True)


def vet(store: ObjectStore, tip: ObjectId) -> None:
    """Check a commit from elsewhere before it is kept: it must have only plain files of bounded size, and a
    ``kgd.yaml``.

    Raises:
        Refused: A file does not belong in a workspace; the error gives its path.
        Limit: The tree is larger than any limit of a workspace.
    """
    try:
        store.check_history(tip)
    except (Damaged, Limit) as error:
        raise Refused(
            f"the remote's workspace cannot be adopted: {error.message}",
            at=error.at,
            next="Tell its maintainer; `kgd up --standalone` in another folder creates a separate one.",
        ) from error
    settings = False
    for path, mode, id in store.files(store.tree_of(tip)):
        header = store.kind_and_size(id) if mode == FILE else None
        if header is None or header[0] != "blob" or header[1] > FILE_LIMIT:
            raise Refused("the remote's workspace holds a link, a submodule or a file that is too large", at=path)
        settings = settings or path == "kgd.yaml"
    if not settings:
        raise Refused(
            "the remote's ref does not contain a workspace", next="Use `kgd up --standalone` in another folder."
        )
