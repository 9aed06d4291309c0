"""A job runs at one hub, and every hub shows it; the end of its hub is noticed."""

from __future__ import annotations

import signal

import psycopg
import pytest

from kgd.client.connection import Connection
from kgd.daemon.jobs import SILENT_SECONDS
from kgd.errors import NotFound
from kgd.postgres.database import BEAT_SECONDS, Database, JobBoard
from tests.hubs.conftest import Team
from tests.postgres_server import Server
from tests.waiting import until

pytestmark = [pytest.mark.needs("postgres")]


@pytest.mark.slow
def test_a_job_of_one_hub_is_shown_by_the_other_and_counts_as_failed_if_its_hub_has_gone(team: Team) -> None:
    first, second = team.start(2)
    folder = team.folder / "library"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.md").write_text(f"# Part {number}\n\nText.\n")
    id = first.call("ingest", workspace="infra", source=str(folder))["job"]
    own = first.call("job", id=id, workspace="infra", wait=60)
    assert (own["state"], own["done"]) == ("done", 3)
    until(lambda: second.call("job", id=id, workspace="infra") == own)  # reported right after the end
    assert second.call("status", workspace="infra")["jobs"][0]["id"] == id
    with psycopg.connect(team.state) as connection:
        connection.execute(
            'UPDATE jobs SET is_over = false, job = replace(job, \'"state":"done"\', \'"state":"running"\'),'
            " reported = now() - interval '5 minutes'"
        )
    first.stop(signal.SIGKILL)
    found = second.call("job", id=id, workspace="infra")
    assert found["state"] == "failed"
    assert str(first.home.state) in found["failure"]
    with pytest.raises(NotFound), Connection(second.home, start=False) as connection:
        connection.call("job", {"id": "0" * 8, "workspace": "infra"})


def test_reports_are_found_by_workspace_and_id_and_other_hubs_list_them(postgres: Server) -> None:
    assert BEAT_SECONDS < SILENT_SECONDS / 2
    with postgres.schema() as url:
        databases = [Database(url) for _ in range(2)]
        one, two = (JobBoard(base, name) for base, name in zip(databases, ("one", "two"), strict=True))
        one.report("infra", "a", "{}", is_over=False)
        one.report("infra", "b", "{}", is_over=True)
        one.report("shop", "c", "{}", is_over=True)
        found = two.find("infra", "a")
        assert found
        assert (found.job, found.hub, found.silent < SILENT_SECONDS) == ("{}", "one", True)
        assert (two.find("shop", "a"), two.find("infra", "x")) == (None, None)
        assert len(two.others("infra", 10)) == 2
        assert len(two.others("infra", 1)) == 1
        assert one.others("infra", 10) == []
        for board, database in zip((one, two), databases, strict=True):
            board.close()
            database.close()
