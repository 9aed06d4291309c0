"""Real code repositories, written with `git fast-import`: a hundred commits in a few milliseconds."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from kgd.code_history.history import CodeHistory

BEGIN = 1_700_000_000
DAY = 86_400
ANN, BOB = "Ann Person <ann@example.org>", "Bob Other <bob@example.org>"


def git(directory: Path, *arguments: str, **options: str) -> str:
    done = subprocess.run(["git", "-C", str(directory), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


class Code:
    """A repository with a history; its commits are one day apart."""

    def __init__(self, root: Path) -> None:
        self.root, self._count = root, 0
        root.mkdir(parents=True)
        git(root, "init", "-q", "-b", "main")

    def commit(self, message: str, *paths: str, by: str = ANN, **how: Mapping[str, str | None]) -> str:
        """Commit a change of each path; `files` gives contents, None to delete. Returns the id."""
        return self.commits([(message, *paths)], by=by, **how)

    def commits(
        self, wanted: list[tuple[str, ...]], *, by: str = ANN, files: Mapping[str, str | None] | None = None
    ) -> str:
        """Make a commit of each message with its paths, and check out the last. Returns its id."""
        stream = bytearray()
        follows = self._count > 0
        for number, (message, *paths) in enumerate(wanted):
            self._count += 1
            contents = {path: f"{path} as of {self._count}\n" for path in paths} | dict(files or {})
            told = message.encode()
            stream += f"commit refs/heads/main\ncommitter {by} {BEGIN + self._count * DAY} +0000\n".encode()
            stream += b"data %d\n%b\n" % (len(told), told)
            if follows and number == 0:
                stream += b"from refs/heads/main^0\n"
            for path, text in contents.items():
                if text is None:
                    stream += f"D {path}\n".encode()
                else:
                    data = text.encode()
                    stream += b"M 100644 inline %b\ndata %d\n%b\n" % (path.encode(), len(data), data)
        subprocess.run(["git", "-C", self.root, "fast-import", "--quiet", "--force"], input=stream, check=True)
        git(self.root, "reset", "-q", "--hard", "main")
        return git(self.root, "rev-parse", "HEAD")

    def history(self, name: str = "history.sqlite") -> CodeHistory:
        """Its history, read again before an answer if necessary."""
        return CodeHistory(self.root, self.root.parent / name)
