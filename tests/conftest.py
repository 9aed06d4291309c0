"""Fixtures of every test: its own home, git settings and locale, and a loud failure for missing programs."""

from __future__ import annotations

import gc
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pygit2
import pytest
from hypothesis import HealthCheck, settings

from kgd.workspace import child_process
from tests import forked, query_plans, sqlite_locks
from tests.postgres_server import Server, programs, server

COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("kgd", COMMON, derandomize=True, max_examples=20)
settings.register_profile("soak", COMMON, max_examples=5000)

ROOT = Path(__file__).resolve().parent.parent
MEMORY = "/dev/shm"
MEMORY_BYTES = 4 << 30
"""Free space that a whole run never uses up."""
ON_DISK = frozenset({"faults"})
"""Folders whose tests use a disk. All others use memory: a whole run writes durably all the time, and would spend half
of it waiting for the disk."""


def _has_room_in_memory() -> bool:
    """Whether test folders may be in memory: it has enough room, and hooks can run from it."""
    try:
        found = os.statvfs(MEMORY)
        memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    except OSError:
        return False
    free = int(memory["MemAvailable"].split()[0]) << 10
    room = min(found.f_bavail * found.f_frsize, free // 2)
    return os.access(MEMORY, os.W_OK) and room >= MEMORY_BYTES and not found.f_flag & os.ST_NOEXEC


def _can_mount() -> bool:
    if os.geteuid() != 0 or not shutil.which("mount"):
        return False
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


def _can_download() -> bool:
    """Whether pip finds a small package that the tests need anyway."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*command, "--dest", folder, "orjson"], capture_output=True, check=False, timeout=60)
    return done.returncode == 0


_PACKAGE = "node_modules/@modelcontextprotocol/server-memory/dist/index.js"
SERVER_MEMORY = (ROOT / _PACKAGE, ROOT / "bench-results/peers" / _PACKAGE)
"""Where `make test-deps` and `make bench` install the official memory server."""


def chromium() -> str | None:
    """The headless shell if installed: the same engine at a third of the cost."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


PROGRAMS: dict[str, Callable[[], bool]] = {
    "zsh": lambda: bool(shutil.which("zsh")),
    "fish": lambda: bool(shutil.which("fish")),
    "man": lambda: bool(shutil.which("man")),
    "strace": lambda: bool(shutil.which("strace")),
    "sshd": lambda: bool(shutil.which("ssh") and shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")),
    "ssh-keygen": lambda: all(map(shutil.which, ("ssh-keygen", "ssh-agent", "ssh-add"))),
    "mount": _can_mount,
    "haproxy": lambda: bool(shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")),
    "mkfs.xfs": lambda: bool(shutil.which("mkfs.xfs", path=f"{os.environ['PATH']}:/usr/sbin")),
    "mkfs.btrfs": lambda: bool(shutil.which("mkfs.btrfs", path=f"{os.environ['PATH']}:/usr/sbin")),
    "node22": lambda: (ROOT / "node_modules/.bin/mcp-inspector").exists(),
    "oidc-provider": lambda: (ROOT / "node_modules/oidc-provider").exists(),
    "postgres": lambda: programs() is not None,
    "registry": _can_download,
    "chromium": lambda: bool(chromium()) and (ROOT / "node_modules/axe-core/axe.min.js").exists(),
    "mcp1": lambda: (ROOT / ".venv-mcp1/bin/python").exists(),
    "minilm": lambda: (ROOT / ".minilm/tokenizer.json").exists(),
    "server-memory": lambda: bool(shutil.which("node")) and any(program.exists() for program in SERVER_MEMORY),
}
"""Programs that only some tests use; `make test-deps` installs what can be installed."""


OPEN_FILES = 1024
"""Soft and hard limit of open files for the tests and their daemons: the default of most systems."""


LONGEST = (
    "sim/test_teams.py",
    "surfaces/test_growth.py",
    "test_extending.py",
    "faults/test_kill.py",
    "faults/test_descriptors.py",
    "hubs/test_chaos.py",
    "faults/test_each_step.py",
    "e2e/test_first_steps.py",
    "hostile/test_trees.py",
    "sim/test_planner.py",
    "e2e/test_django.py",
    "e2e/test_two_teams.py",
    "access/test_breaches.py",
    "test_bench.py",
    "faults/test_disks.py",
    "e2e/test_places.py",
    "surfaces/test_clients.py",
    "test_commands_in_docs.py",
    "workspace/publishing/test_publication.py",
    "ui/test_node.py",
    "ui/test_graph.py",
    "ui/test_conflicts.py",
    "test_docs.py",
    "workspace/publishing/test_person.py",
)
"""The slowest files. They start first, since one worker runs a whole file."""


@pytest.hookimpl(tryfirst=True)  # before pytest itself chooses a place
def pytest_configure(config: pytest.Config) -> None:
    """Choose a temporary folder in memory, and the number of random examples: `make soak` has more."""
    if not config.option.basetemp and _has_room_in_memory():
        config.option.basetemp = tempfile.mkdtemp(prefix="tests-", dir=MEMORY)
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    settings.load_profile("soak" if os.environ.get("KGD_SOAK") else "kgd")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files without a test of this run: importing the files whose tests are all slow takes each worker a second.

    A file named on the command line is collected, so that pytest reports its tests as deselected.
    """
    is_named = any(collection_path.name in argument for argument in config.args)
    if is_named or not collection_path.name.startswith("test_"):
        return None
    wanted = config.option.markexpr
    left_out = [] if " or " in wanted else re.findall(r"not (\w+)", wanted)
    marks = re.search(r"^pytestmark = (.*|\[\n(    .*\n)+)", collection_path.read_text(), re.MULTILINE)
    return bool(marks and left_out and re.search(rf"mark\.({'|'.join(left_out)})\b", marks[0])) or None


def pytest_sessionstart() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    """Freeze imported and collected objects: the garbage collector need not scan a million objects."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)  # deselected tests need no program, and a check takes up to two seconds
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    rank = {ROOT / "tests" / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))
    present: dict[str, bool] = {}
    for item in items:
        for marker in item.iter_markers("needs"):
            program = marker.args[0]
            if program not in present:
                present[program] = PROGRAMS[program]()
            if not present[program] and os.environ.get("KGD_PICTURES"):
                raise pytest.UsageError(f"no picture is taken without {program}: run `make test-deps`")
            if not present[program]:
                item.add_marker(pytest.mark.skip(reason=f"MISSING PROGRAM {program}: run `make test-deps`"))


@pytest.fixture(scope="session")
def repository_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A template for new repositories without git's fourteen sample hooks: the tests make a thousand repositories."""
    made = tmp_path_factory.mktemp("template")
    for folder in ("hooks", "info", "branches"):
        (made / folder).mkdir()
    (made / "info" / "exclude").write_text("# git ls-files --others --exclude-from=.git/info/exclude\n")
    return made


def _settle_in(home: Path, repository_template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith(("GIT_", "KGD_", "XDG_", "SSH_"))]:
        if name != "KGD_SOAK":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("KGD_HOME", str(home / "kgd"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    # libgit2 looked up the user's configuration when it was loaded, before any test had a home.
    pygit2.settings.search_path[pygit2.enums.ConfigLevel.GLOBAL] = str(home)
    for level in (pygit2.enums.ConfigLevel.XDG, pygit2.enums.ConfigLevel.SYSTEM):
        pygit2.settings.search_path[level] = str(home / "nowhere")
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Ann Person\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n"
        f"\ttemplateDir = {repository_template}\n"
    )


@pytest.fixture(scope="session", autouse=True)
def _nobodys_world(repository_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Processes that outlive a test do not see the user's home either. Watch SQL statements and opened files."""
    sqlite_locks.watch()
    with pytest.MonkeyPatch.context() as patch, query_plans.recorded(), forked.parsers():
        _settle_in(tmp_path_factory.mktemp("home"), repository_template, patch)
        yield


# These two checks of every test are hooks: a fixture costs ten times as much.
@pytest.hookimpl(tryfirst=True)  # before the fixtures
def pytest_runtest_setup() -> None:
    query_plans.scans.clear()
    sqlite_locks.opened.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Fail a test with a statement that reads a whole table, or that opens a file of SQLite beside it."""
    yield
    found = "\n".join(f"{plan}: {sql}" for sql, plan in query_plans.scans.items())
    assert not found, f"give it an index or another order of joins, or a reason in tests/query_plans.py:\n{found}"
    assert not sqlite_locks.opened, "closing these files drops SQLite's locks on them"


@pytest.fixture
def unforked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Daemons in this process start parsers of code as usual, as their children."""
    monkeypatch.setattr(child_process, "subprocess", subprocess)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with server() as made:
        yield made


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder for one test; on a disk if the test needs one."""
    if request.path.parent.name not in ON_DISK:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="tests-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def _own_world(
    repository_template: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Hide the user's home, git configuration, identity, agents and language from tests."""
    home = Path(tempfile.mkdtemp(prefix="home-", dir=tmp_path_factory.getbasetemp()))
    _settle_in(home, repository_template, monkeypatch)
    yield
    shutil.rmtree(home, ignore_errors=True)
