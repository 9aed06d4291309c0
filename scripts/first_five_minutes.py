"""The first five minutes by a stopwatch: from a clone to a fact that a second client knows, and a page that shows it.

Usage: python scripts/first_five_minutes.py [NEW_FOLDER]

All of it happens in the folder, kgd's home included, and the person's own kgd is left alone. With KGD naming a program
that is there already, nothing is cloned and installed; PYTHON is the Python to install with. Each command is printed,
and at the end what each took.
"""

import http.client
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode, urlsplit

ROOT = Path(__file__).resolve().parent.parent
NAME, SUMMARY = "Sign tokens with HS256", "one service signs and checks"
FACT = {
    "changes": [
        {
            "op": "upsert",
            "type": "decision",
            "name": NAME,
            "summary": SUMMARY,
            "relations": [{"type": "about", "target": "./src/auth"}],
        }
    ]
}
SESSION = "def check(token):\n    return token\n"


class Stopwatch:
    """Runs commands one after another and keeps how long each took."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "KGD_HOME": str(folder / "home")}
        self.taken: list[tuple[str, float]] = []

    def run(self, step: str, *command: str) -> str:
        """What the command prints; a step without a name belongs to the one before."""
        print(f"$ {shlex.join(command)}", flush=True)
        began = time.monotonic()
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"{done.stdout}\nthis failed with {done.returncode}: {shlex.join(command)}")
        self.note(step, time.monotonic() - began)
        return done.stdout

    def note(self, step: str, seconds: float) -> None:
        if not step:
            step, before = self.taken.pop()
            seconds += before
        self.taken.append((step, seconds))


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    watch = Stopwatch(folder)
    python, program = os.environ.get("PYTHON", sys.executable), os.environ.get("KGD", "")
    if not program:
        watch.run("clone", "git", "clone", "--quiet", str(ROOT), "kgd")
        watch.run("install, start, walk (make up)", "make", "-s", "-C", "kgd", f"PYTHON={python}", "up")
        program = str(folder / "kgd/.venv/bin/kgd")
    client = [python, str(ROOT / "scripts/mcp_client.py"), "shop"]
    (folder / "shop/src/auth").mkdir(parents=True)
    (folder / "shop/src/auth/session.py").write_text(SESSION)
    try:
        watch.run("a code repository", "git", "init", "--quiet", "shop")
        watch.run("its workspace (kgd up)", program, "-C", "shop", "up", "--quiet")
        watch.run("a first fact, by one MCP client", *client, "first-client", "put", json.dumps(FACT), program, "mcp")
        watch.run("a restart", program, "down", "--quiet")
        asked = json.dumps({"query": "sign tokens"})
        known = watch.run("a second MCP client asks", *client, "another-client", "search", asked, program, "mcp")
        if SUMMARY not in known:
            sys.exit(f"the second client does not know the fact:\n{known}")
        answer = watch.run("the page", program, "-C", "shop", "ui", "--print", "--json")
        began = time.monotonic()
        shown = overview(json.loads(answer)["url"])
        watch.note("", time.monotonic() - began)
        if NAME.split()[-1] not in shown:
            sys.exit(f"the page does not show the fact:\n{shown}")
    finally:
        subprocess.run([program, "down", "--quiet"], env=watch.environment, check=False)
    print()
    for step, seconds in watch.taken:
        print(f"{seconds:7.1f} s  {step}")
    total = sum(seconds for _, seconds in watch.taken)
    print(f"{total:7.1f} s  in all: remembered by one client, recalled by another after a restart, shown on the page")


def overview(link: str) -> str:
    """What a browser shows that follows the link: the page behind it, the form on it, and where that leads."""
    place = urlsplit(link)
    connection = http.client.HTTPConnection(place.netloc, timeout=30)
    page, _ = answered(connection, "GET", place.path)
    code = re.search(r'name="code" value="([^"]+)"', page)
    if code is None:
        sys.exit(f"the link leads to no form:\n{page}")
    _, came = answered(connection, "POST", "/ui/in", urlencode({"code": code[1]}), expected=303)
    cookie = (came["set-cookie"] or "").partition(";")[0]
    where = came["location"] or ""
    for _ in range(3):
        connection.request("GET", where, headers={"Cookie": cookie})
        answer = connection.getresponse()
        body = answer.read().decode()
        if answer.status == 200:
            return body
        where = answer.headers["location"] or ""
    sys.exit("the link leads round and round")


def answered(
    connection: http.client.HTTPConnection, method: str, path: str, body: str | None = None, expected: int = 200
) -> tuple[str, "http.client.HTTPMessage"]:
    connection.request(method, path, body, {"Content-Type": "application/x-www-form-urlencoded"} if body else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    if answer.status != expected:
        sys.exit(f"{method} {path} was answered with {answer.status}:\n{text}")
    return text, answer.headers


if __name__ == "__main__":
    main()
