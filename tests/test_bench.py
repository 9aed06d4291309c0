"""The benches run at a tiny size, so that they keep working."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import (
    areas,
    bootstrap,
    client,
    commits,
    corpus,
    disk,
    flame,
    hub,
    ingesting,
    knowing,
    languages,
    long_history,
    mcp_calls,
    meaning,
    memory_server,
    merge,
    pages,
    paths,
    profiling,
    scale,
    scaling,
    search,
    sizing,
    starting,
    sync,
    traverse,
)
from bench.__main__ import Run, measured, summary
from bench.corpus import Made
from bench.peers import measuring
from bench.peers.servers import Kgd, ServerMemory
from bench.row import Row, compare, line, table, value, verdict

pytestmark = pytest.mark.slow

NODES = 60


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return corpus.build(tmp_path_factory.mktemp("bench") / "workspace", NODES)


def told(rows: list[Row]) -> None:
    """Each row can be printed and judged."""
    assert rows
    for row in rows:
        assert row["what"] in line(row)
        assert verdict(row) in ("met", "missed", "not measured", "")


def test_derived_data_on_disk_is_measured(tmp_path: Path) -> None:
    found = list(disk.rows(NODES, tmp_path))
    told(found)
    tables = disk.tables(tmp_path / "made/.git/kgd/index.sqlite")
    assert sum(size for _, size in tables) == (tmp_path / "made/.git/kgd/index.sqlite").stat().st_size


@pytest.mark.filterwarnings("ignore:ping is removed")
def test_calls_over_mcp_are_measured(made: Made, tmp_path: Path) -> None:
    told(mcp_calls.rows([made], tmp_path, None, alone=2))


def test_the_code_of_each_call_is_counted(tmp_path: Path) -> None:
    parts = ("Transaction.stage", "retrieve", "ActiveContext.touch", "Writer._flush")
    for part, (what, path, idle) in zip(parts, paths.paths(tmp_path, nodes=NODES, repeats=1), strict=True):
        assert part in {name for _, name in path}, what
        assert path <= idle


def test_the_short_processes_and_many_clients_are_measured(made: Made, tmp_path: Path) -> None:
    told(client.rows(made, tmp_path / "short", starts=1, trips=5))
    load = client.load(made, tmp_path / "load", clients=2, seconds=0.3)
    told(load)
    assert load[1]["value"] == 0


def test_durable_commits_and_reads_beside_them_are_measured(made: Made, tmp_path: Path) -> None:
    told(commits.rows(made, tmp_path, rounds=1, seconds=0.1))


def test_starts_are_measured(tmp_path: Path) -> None:
    made = corpus.build(tmp_path / "workspace", NODES)
    told(starting.without_cache(made.layout.git_dir, NODES, rounds=1))
    told(starting.with_cache(made.layout.git_dir, NODES, rounds=1))
    told([starting.restart(tmp_path / "home", made, seconds=0.1)])


def test_patterns_and_context_are_measured(tmp_path: Path) -> None:
    told(list(knowing.rows(tmp_path, sizes=(12, 30))))


@pytest.mark.requirement("U7")
def test_questions_in_six_languages_find_their_notes(tmp_path: Path) -> None:
    rows = list(languages.rows(tmp_path))
    told(rows)
    assert sum(row["value"] for row in rows) <= 2, [row["unanswered"] for row in rows]


def test_histories_of_areas_are_measured(tmp_path: Path) -> None:
    told(list(areas.rows(tmp_path, sizes=(5, 210))))


def test_a_code_tree_and_a_long_history_are_measured(tmp_path: Path) -> None:
    told(list(bootstrap.growth(tmp_path / "trees", (5, 10))))
    told(list(long_history.rows(tmp_path / "long", commits=2 * NODES, nodes=NODES)))


def test_more_hubs_are_less_busy_and_answer_sooner() -> None:
    two, four = (sizing.simulated(hubs, seconds=20) for hubs in (2, 4))
    assert 1 > two[0] > four[0] > (sizing.READS * sizing.READ_SECONDS + sizing.WRITES * sizing.WRITE_SECONDS) / 4
    assert two[1][len(two[1]) // 2] > four[1][len(four[1]) // 2] >= sizing.READ_SECONDS


@pytest.mark.soak
@pytest.mark.needs("postgres")
def test_several_hubs_are_measured(made: Made, tmp_path: Path) -> None:
    told(list(scaling.rows(made, tmp_path, clients=3, seconds=1.0)))


def test_the_memory_servers_toolset_is_measured(tmp_path: Path) -> None:
    told(list(memory_server.rows([NODES], tmp_path, None)))


@pytest.mark.large
@pytest.mark.timeout(300)
def test_other_memory_servers_are_measured_on_the_same_notes(tmp_path: Path) -> None:
    """The servers written in Python start too slowly for a test."""
    effort = measuring.Effort(blocks=1, calls=3, starts=1, shared=4, kills=1, killed_writes=4)
    rows = list(measuring.rows(tmp_path, [NODES], effort, [Kgd, ServerMemory]))
    told(rows)
    of_kgd = {row["measure"]: row["value"] for row in rows if row.get("server") == "kgd"}
    assert of_kgd["search for a phrase of three words: note among the first 5"] == 100
    assert of_kgd["two writers, 4 notes each: acknowledged notes missing"] == 0
    assert of_kgd["kill -9: acknowledged notes missing"] == 0
    assert of_kgd["kill -9: starts after 1 kills"] == 1
    assert f"| {NODES} notes | kgd " in measuring.table(rows)


def test_a_server_that_is_not_installed_is_not_measured(tmp_path: Path) -> None:
    class Absent(ServerMemory):
        name = "absent"

        @classmethod
        def absent(cls) -> str:
            return "needs Python 3.12"

    assert [line(row) for row in measuring.rows(tmp_path, [], kinds=[Absent])] == [
        "  not measured  all calls / absent: needs Python 3.12"
    ]


def test_a_cold_start_and_a_stop_are_measured(tmp_path: Path) -> None:
    told(list(scale.rows(corpus.kept(tmp_path / "corpora", NODES), tmp_path / "scale")))


def test_meaning_is_measured(made: Made, tmp_path: Path) -> None:
    told(list(meaning.rows([made], tmp_path / "meaning")))


def test_sharing_is_measured(made: Made, tmp_path: Path) -> None:
    told(list(sync.rows(made, tmp_path, rounds=2)))


def test_a_hub_and_merges_are_measured(made: Made, tmp_path: Path) -> None:
    found = list(hub.rows(made, tmp_path / "hub", clients=3, seconds=0.3))
    told(found)
    assert found[1]["value"] == 0
    told(list(hub.one_node(made, tmp_path / "through", rounds=1, by_itself=1)))
    told(list(merge.rows(made)))


def test_walks_and_searches_are_measured() -> None:
    told(traverse.rows(NODES * 10))
    told(search.rows(NODES * 10))


def test_a_rate_is_the_better_the_higher_and_a_time_the_lower() -> None:
    row: Row = {"what": "x", "peer": "y", "per_s": 20.0, "peer_per_s": 10.0, "ratio": 2.0, "target": 1.5}
    assert verdict(row) == "met"
    assert verdict({**row, "target": 2.5}) == "missed"
    assert verdict({"what": "x", "value": 3.0, "unit": "s", "target": 2.0}) == "missed"
    assert verdict({"what": "x", "peer": "y", "not_measured": "no npm"}) == "not measured"


def test_a_run_is_printed_as_the_table_of_the_page() -> None:
    rows = [
        {"section": "walks", **row, "verdict": verdict(row)}
        for row in (
            compare("walk", "networkx", "us", 10.0, 40.0, 0.5, nodes=1000),
            value("size", "MB", 3.0, 2.0),
            value("without a target", "s", 1.0),
        )
    ]
    assert table(rows).splitlines()[2:] == [
        "| walks | walk, 1,000 nodes | networkx | 0.25 | 10 : 40 us | 0.5 | met |",
        "| walks | size |  |  | 3 MB | 2 | missed |",
    ]


def test_taking_in_documents_is_measured(tmp_path: Path) -> None:
    told(list(ingesting.rows(tmp_path, 3)))


@pytest.mark.large
@pytest.mark.needs("chromium")
def test_pages_are_measured_in_a_browser(made: Made, tmp_path: Path) -> None:
    found = list(pages.rows([made], tmp_path, looks=1, changes=12))
    told(found)
    assert {verdict(row) for row in found} <= {"met", "missed"}


def test_a_section_that_fails_or_takes_too_long_is_named_and_the_others_are_measured(tmp_path: Path) -> None:
    def fails(_: Run) -> Iterator[Row]:
        yield value("found before", "s", 2.0, 1.0)
        raise RuntimeError("no such thing")

    def never_ends(_: Run) -> Iterator[Row]:
        threading.Event().wait()
        yield value("never", "s", 1.0)

    def works(_: Run) -> Iterator[Row]:
        yield value("works", "s", 1.0, 2.0)

    sections = {"fails": fails, "never ends": never_ends, "works": works}
    found = list(measured(Run(tmp_path, [NODES]), sections, seconds=0.2))
    rows = [row["what"] for some, _ in found for row in some]
    failed = {name: why for _, some in found for name, why in some.items()}
    assert rows == ["found before", "works"]
    assert failed == {"fails": "RuntimeError: no such thing", "never ends": "TimeoutError: broken off after 0.2 s"}
    said = "\n".join(summary([row for some, _ in found for row in some], failed))
    assert "found before: 2 s" in said.partition("missed:")[2]
    assert "1 met, 1 missed, 0 not measured; 2 sections failed" in said


@pytest.mark.large
def test_profiles_are_drawn_of_writes_calls_and_starts(tmp_path: Path) -> None:
    found = profiling.pictures(tmp_path, NODES, seconds=0.4, times=1)
    assert set(found) == {"start", "get", "search", "writers"}
    assert "Writer._flush" in flame.picture(found["writers"][1], "32 writers")
    assert all(frames.samples for _, frames in found.values())


def test_a_flame_graph_is_as_wide_as_the_samples_of_its_functions() -> None:
    stacks = ["kgd-call-3;kgd/a.py:run;kgd/b.py:read 3", "kgd-call-9;kgd/a.py:run 1", "main;kgd/a.py:other<x> 4"]
    root = flame.read(stacks)
    assert root.samples == 8
    assert root.called["kgd-call"].called["kgd/a.py:run"].samples == 4
    drawn = flame.picture(root, "A & B")
    assert "kgd/b.py:read: 37.5 %" in drawn
    assert "other&lt;x&gt;" in drawn
    assert 'width="449.5"' in drawn
    assert flame.read(stacks, below="b.py").samples == 3


def test_its_help_needs_no_package_for_development() -> None:
    packages = ("hypothesis", "PIL", "playwright", "psycopg", "pytest", "xdist")
    program = f"import runpy, sys\nsys.modules.update(dict.fromkeys({packages}))\nsys.argv[1:] = ['--help']\n"
    program += "runpy.run_module('bench', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage:")
