"""The dashboard without a browser: who gets in, every route as every role, tables, streams, odd texts, forms."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from dashboard_home import HOSTILE, NOW, fill_tables, make_report, make_run, note_line
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from playproof.dashboard.access import ROLES, DashboardSessions
from playproof.dashboard.actions import ACTIONS
from playproof.dashboard.app import _build, dashboard_app, find_page, role_needed
from playproof.dashboard.context import DashboardContext
from playproof.dashboard.live import Watch
from playproof.dashboard.marks import mark_trajectory, next_unmarked, read_mark
from playproof.dashboard.pages import PAGES, TABLES
from playproof.dashboard.pages.runs import read_notes
from playproof.dashboard.shell import cursor_of, render_block
from playproof.errors import InputError
from playproof.operate.jobs.queue import enqueue, list_jobs
from playproof.store.db import connect, upgrade

BASE = "http://127.0.0.1:8780"


class Dashboard:
    """An application over a home, and clients of every role."""

    def __init__(self, context: DashboardContext) -> None:
        self.context, self.sessions = context, DashboardSessions()
        self.app = dashboard_app(context, self.sessions)
        self.identities: list[str] = []
        self.job = ""

    def client(self, role: str | None = None) -> TestClient:
        """Give a client, signed in by a link where a role is named."""
        client = TestClient(self.app, base_url=BASE, follow_redirects=False)
        if role is not None:
            answer = client.get(f"/enter?once={self.sessions.link(role)}")  # type: ignore[arg-type]
            assert answer.status_code == 303
        return client

    def addresses(self) -> list[str]:
        """Give an address of every page."""
        names = {
            "session": "none",
            "label": "none",
            "name": "learner",
            "report": "validate-aa-bb",
            "trajectory": self.identities[0],
            "job": self.job,
        }
        names |= dict.fromkeys(("model", "experiment", "account"), "none")  # fmt: skip
        result = []
        for pattern, _ in PAGES:
            address = re.sub(r"\{(\w+)\}", lambda match: names[match[1]], pattern)
            result.append(address + {"/runs/compare": "?names=learner+other", "/datasets/compare": "?a=x&b=y",
                                     "/agents/search": "?q=script"}.get(address, ""))  # fmt: skip
        return result


MISSING = (
    "/models/none",
    "/experiments/none",
    "/bots/none",
    "/recordings/none",
    "/datasets/none",
    "/datasets/compare?a=x&b=y",
)
"""Pages of things that this home lacks: they say so."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    root = tmp_path_factory.mktemp("dashboard") / "home"
    root.mkdir()
    engine = connect(url=f"sqlite:///{root / 'playproof.db'}")
    upgrade(engine)
    result = Dashboard(DashboardContext(root, engine))
    result.identities = fill_tables(engine)
    for number, name in enumerate(("learner", "other")):
        make_run(root, name, seed=number + 1, note=HOSTILE[number])
    make_report(root, text=HOSTILE[0])
    result.job = enqueue(engine, root, ["audit", HOSTILE[3].replace("/", "")], "test", NOW).job_id
    (root / "jobs" / result.job).mkdir()
    (root / "jobs" / result.job / "log.txt").write_text("\n".join(HOSTILE))
    yield result
    engine.dispose()


def test_a_link_is_good_once(site: Dashboard) -> None:
    token = site.sessions.link("viewer")
    assert site.client().get(f"/enter?once={token}").status_code == 303
    assert site.client().get(f"/enter?once={token}").status_code == 403
    assert site.client().get("/enter").status_code == 403
    cookie = site.client().get(f"/enter?once={site.sessions.link('viewer')}").headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_links_and_sessions_end(site: Dashboard) -> None:
    now = [0.0]
    sessions = DashboardSessions(lambda: now[0])
    token = sessions.link("admin")
    now[0] = 601.0
    assert sessions.enter(token) is None
    session = sessions.enter(sessions.link("admin"))
    assert session is not None
    headers = {"cookie": f"playproof_dashboard={session.identity}"}
    assert sessions.find(headers) == session
    now[0] += 13 * 3600
    assert sessions.find(headers) is None


@pytest.mark.parametrize("role", [None, *ROLES])
def test_every_page_as_every_role(site: Dashboard, role: str | None) -> None:
    client = site.client(role)
    for address in site.addresses():
        answer = client.get(address)
        expected = 401 if role is None else 400 if address in MISSING else 200
        assert answer.status_code == expected, (address, answer.text[-500:])
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert answer.headers["cache-control"] == "no-store"
    for name in TABLES:
        for form in ("json", "csv"):
            assert client.get(f"/data/{name}.{form}").status_code == (401 if role is None else 200)
    for address in ("/nowhere", "/data/nothing.json", "/files/other/x.html", "/files/reports/../playproof.db", "/docs"):
        assert client.get(address).status_code == (401 if role is None else 404), address


def test_every_change_needs_its_role_its_page_and_its_token(site: Dashboard) -> None:
    for name, action in ACTIONS.items():
        for role in (None, *ROLES):
            client = site.client(role)
            answer = client.post(f"/do/{name}", data={"x": "y"}, headers={"origin": BASE})
            if role is None:
                assert answer.status_code == 401
            else:
                # who may is asked for the token of a form; who may not, is refused before
                assert answer.status_code == 403
                refused = "needs the role" in answer.text
                assert refused == (ROLES.index(role) < ROLES.index(action.role)), (name, role)
    assert site.client("admin").post("/do/nothing", data={}, headers={"origin": BASE}).status_code == 404
    assert site.client("admin").put("/", headers={"origin": BASE}).status_code == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.invalid"}, 421),
        ({"host": "127.0.0.1.evil.invalid"}, 421),
        ({"host": "localhost:1"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
    ],
)
def test_foreign_hosts_and_sites_read_nothing(site: Dashboard, headers: dict[str, str], status: int) -> None:
    client = site.client("admin")
    for address in ("/", "/data/runs.json", "/openapi.json", "/live/poll?at=/runs"):
        cookie = {"cookie": "; ".join(f"{name}={value}" for name, value in client.cookies.items())}
        assert httpx_get(site, address, {**cookie, **headers}) == status


def httpx_get(site: Dashboard, address: str, headers: dict[str, str]) -> int:
    client = TestClient(site.app, base_url=BASE, follow_redirects=False)
    return client.get(address, headers=headers).status_code


def token_of(page: str) -> str:
    match = re.search(r'name="csrf" value="([^"]+)"', page)
    assert match
    return match[1]


def test_foreign_origins_and_tokens_change_nothing(site: Dashboard) -> None:
    client = site.client("admin")
    token = token_of(client.get("/runs").text)
    values = {"csrf": token, "verdict": "accepted", "trajectory": site.identities[1]}
    for origin in ("http://evil.invalid", "null", "http://127.0.0.1:9999"):
        assert client.post("/do/mark", data=values, headers={"origin": origin}).status_code == 403
    other = token_of(site.client("admin").get("/runs").text)
    for wrong in ("", other, token[:-1]):
        assert client.post("/do/mark", data={**values, "csrf": wrong}, headers={"origin": BASE}).status_code == 403
    assert client.post("/do/mark", content=json.dumps(values), headers={"origin": BASE}).status_code == 415
    assert read_mark(site.context.engine, site.identities[1]).verdict is None
    assert client.post("/do/mark", data=values, headers={"origin": BASE}).status_code == 303
    assert read_mark(site.context.engine, site.identities[1]).verdict == "accepted"


class Tags(HTMLParser):
    """Lists what a page would run or load."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in ("iframe", "object", "embed", "base", "img", "svg", "math", "meta") and "http-equiv" in given:
            self.bad.append(tag)
        if tag in ("iframe", "object", "embed", "base", "img", "svg", "math"):
            self.bad.append(tag)
        if (
            tag == "script"
            and not given.get("src", "").startswith("/static/")
            and given.get("type") != "application/json"
        ):
            self.bad.append("script")
        self.bad += [f"{tag} {name}" for name in given if name.startswith("on") or name == "style"]
        for name in ("href", "src", "action"):
            if given.get(name, "").lower().startswith(("javascript:", "http", "//")):
                self.bad.append(f"{tag} {name}={given[name]}")


def test_texts_of_strangers_are_shown_as_text(site: Dashboard) -> None:
    client = site.client("admin")
    for identity, text in zip(site.identities, HOSTILE, strict=True):
        page = client.get(f"/agents/trajectories/{identity}").text
        reading = Tags()
        reading.feed(page)
        assert not reading.bad, (text, reading.bad)
        assert html.escape(text, quote=False).replace("'", "&#39;").replace('"', "&#34;") in page
        sql = "SELECT '" + text.replace("'", "''") + "' AS \"" + text.replace('"', '""') + '"'
        for address in (f"/store/query?sql={quote(sql)}", f"/agents/search?q={quote(text)}", f"/?said={quote(text)}"):
            reading = Tags()
            reading.feed(client.get(address).text)
            assert not reading.bad, (address, reading.bad)
    for address in [*site.addresses(), "/agents/review"]:
        reading = Tags()
        reading.feed(client.get(address).text)
        assert not reading.bad, (address, reading.bad)
    exported = client.get("/data/trials.csv").text
    assert not re.search(r"(^|,)[=+@]", exported)


def test_reports_run_without_the_servers_origin(site: Dashboard) -> None:
    answer = site.client("viewer").get("/files/reports/validate-aa-bb/report.html")
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"].startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in answer.headers["content-security-policy"]


def test_tables_are_the_same_as_page_csv_and_json(site: Dashboard) -> None:
    client = site.client("viewer")
    query = "sort=start_time&agent=" + quote(f"agent 3 {HOSTILE[3]}")
    rows = client.get(f"/data/trajectories.json?{query}").json()["rows"]
    assert [row["trajectory_id"] for row in rows] == [site.identities[3]]
    assert len(client.get(f"/data/trajectories.csv?{query}").text.splitlines()) == 2
    assert site.identities[3][:12] in client.get(f"/agents/trajectories?{query}").text
    assert client.get("/data/trajectories.json?sort=odd").status_code == 400
    assert client.get("/data/trajectories.json?sort=final_pnl").status_code == 400


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_pages_cut_by_key_give_every_row_once(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    from playproof.dashboard.pages.agents import TRAJECTORIES
    from playproof.dashboard.tables import TableQuery, cursor

    url = f"sqlite:///{tmp_path / 'x.db'}" if kind == "sqlite" else request.getfixturevalue("postgres").new()
    engine = connect(url=url)
    upgrade(engine)
    identities = fill_tables(engine, ["same"], 25)
    context = DashboardContext(tmp_path, engine)
    window = {"window": "2026-01-02T01:00Z"}
    for sort, filters in (("start_time", {}), ("final_pnl", window)):
        for descending in (False, True):
            seen: list[str] = []
            after = ""
            while True:
                rows = TRAJECTORIES.read(context, TableQuery(sort, descending, after, filters, 4))
                seen += [row["trajectory_id"] for row in rows]
                if len(rows) < 4:
                    break
                after = cursor(rows[-1]["key"])
            expected = [name for index, name in enumerate(identities) if not filters or index % 3 == 1]
            assert seen == (expected[::-1] if descending else expected)
    engine.dispose()


def test_a_page_of_rows_in_memory_goes_on_where_it_stopped() -> None:
    from playproof.dashboard.tables import TableQuery, cursor, page_of

    rows = [{"name": f"r{index}", "value": None if index % 4 == 0 else index % 3} for index in range(40)]
    for descending in (False, True):
        seen: list[str] = []
        after = ""
        for _ in range(20):
            page = page_of(rows, TableQuery("value", descending, after, {}, 7), "name")
            seen += [row["name"] for row in page]
            if len(page) < 7:
                break
            after = cursor(page[-1]["key"])
        assert sorted(seen) == sorted(row["name"] for row in rows)
        assert len(seen) == 40


def test_the_stream_sends_only_what_is_new(site: Dashboard) -> None:
    client = site.client("viewer")
    session = next(iter(site.sessions._sessions.values()))
    page = _build(site.context, "/runs/learner")
    blocks = [render_block(block, csrf="", allowed=frozenset({"viewer"})) for block in page.blocks]
    first = client.get("/live/poll?at=/runs/learner").json()
    assert set(first["blocks"]) == {block.name for block in page.blocks}
    assert len(first["cursor"].split(".")) == len(cursor_of(blocks).split("."))
    assert client.get(f"/live/poll?at=/runs/learner&cursor={first['cursor']}").status_code == 204
    with (site.context.root / "runs" / "learner" / "log.jsonl").open("a") as file:
        file.write(note_line(1_000))
    second = client.get(f"/live/poll?at=/runs/learner&cursor={first['cursor']}").json()
    assert set(second["blocks"]) == {"facts", "curves"}
    assert session.role in ROLES


def test_a_look_costs_no_build_where_nothing_changed(site: Dashboard) -> None:
    now = [0.0]
    watch = Watch(site.context, lambda: now[0])
    topics = ("jobs", "runs", "run:learner", "log", "db", "reports", "datasets", f"job:{site.job}")
    before = watch.state(topics)
    now[0] += 10
    assert watch.state(topics) == before
    with (site.context.root / "runs" / "learner" / "log.jsonl").open("a") as file:
        file.write(note_line(1_001))
    now[0] += 10
    changed = [name for name, old, new in zip(topics, before, watch.state(topics), strict=True) if old != new]
    assert changed == ["runs", "run:learner"]


def test_a_log_is_read_only_where_it_grew(tmp_path: Path) -> None:
    path = make_run(tmp_path, "a", 5)
    assert len(read_notes(path)) == 5
    with (path / "log.jsonl").open("a") as file:
        file.write(note_line(5) + '{"kind": "evalu')
    assert len(read_notes(path)) == 6
    with (path / "log.jsonl").open("a") as file:
        file.write('ation", "step": 7}\n')
    assert read_notes(path)[-1]["step"] == 7
    (path / "log.jsonl").unlink()
    (path / "log.jsonl").write_text(note_line(0))
    assert len(read_notes(path)) == 1


def post(client: TestClient, action: str, /, **values: str) -> httpx.Response:
    token = token_of(client.get("/runs").text)
    return client.post(f"/do/{action}", data={"csrf": token, **values}, headers={"origin": BASE})


def test_forms_put_jobs_in_once(site: Dashboard) -> None:
    client, before = site.client("operator"), len(list_jobs(site.context.engine, site.context.root))
    for _ in range(2):
        answer = post(client, "train", name="made", method="ppo", world="drift", steps="1000", once="0123456789abcdef",
                      settings="hidden=[8]\nepochs=1")  # fmt: skip
        assert answer.headers["location"].startswith("/jobs/0123456789abcdef")
    jobs = list_jobs(site.context.engine, site.context.root)
    assert len(jobs) == before + 1
    assert jobs[0].arguments == ["train", "ppo", "--name", "made", "--world", "drift", "--steps", "1000",
                                 "--set", "hidden=[8]", "--set", "epochs=1"]  # fmt: skip
    assert post(client, "datasets/build", name="--output").status_code == 400
    assert post(client, "validate", policy="os:system").status_code == 400
    assert post(client, "record", url="file:///etc/passwd").status_code == 400
    assert len(list_jobs(site.context.engine, site.context.root)) == before + 1


def test_what_cannot_be_taken_back_is_asked_twice(site: Dashboard) -> None:
    client, before = site.client("admin"), len(list_jobs(site.context.engine, site.context.root))
    asked = post(client, "store/compact")
    assert asked.status_code == 200
    assert "Whole windows of every log are moved" in asked.text
    assert len(list_jobs(site.context.engine, site.context.root)) == before
    assert post(client, "store/compact", sure="yes").status_code == 303
    assert len(list_jobs(site.context.engine, site.context.root)) == before + 1
    assert post(site.client("operator"), "store/compact", sure="yes").status_code == 403


def test_an_admin_gives_links(site: Dashboard) -> None:
    page = post(site.client("admin"), "link", role="viewer").text
    match = re.search(r"/enter\?once=([\w-]+)", page)
    assert match
    session = site.sessions.enter(match[1])
    assert session is not None
    assert session.role == "viewer"


def test_leaving_ends_the_session(site: Dashboard) -> None:
    client = site.client("viewer")
    token = token_of(client.get("/settings").text)
    assert client.post("/leave", data={"csrf": token}, headers={"origin": BASE}).status_code == 200
    assert client.get("/").status_code == 401


def test_marks_and_the_review_queue(site: Dashboard) -> None:
    engine = site.context.engine
    latest = site.identities[-1]
    assert next_unmarked(engine) == latest
    mark_trajectory(engine, latest, verdict="rejected", tags=["odd"], note=HOSTILE[0], who="test", now=NOW)
    assert next_unmarked(engine) == site.identities[-2]
    assert next_unmarked(engine, site.identities[-2]) == site.identities[-3]
    mark_trajectory(engine, latest, verdict="keep", tags=None, note=None, who="test", now=NOW)
    assert read_mark(engine, latest).note == HOSTILE[0]
    mark_trajectory(engine, latest, verdict=None, tags=[], note="", who="test", now=NOW)
    assert next_unmarked(engine) == latest
    with pytest.raises(InputError, match="none called"):
        mark_trajectory(engine, "nobody", verdict="accepted", tags=None, note=None, who="test", now=NOW)


def test_roles_are_denied_by_default() -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "POST"):
        assert role_needed(method, "/") is None
    assert role_needed("GET", "/etc/passwd") is None
    assert find_page("/runs/a/b", "") is None


ODD = st.one_of(
    st.text(max_size=40), st.sampled_from([*HOSTILE, "-1", "1e999", "null", "[]", "W10", "WzEsImEiXQ", "\x00"])
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_described_json_route_answers_whatever_is_asked(site: Dashboard, data: st.DataObject) -> None:
    client = getattr(site, "_walker", None) or site.client("viewer")
    site._walker = client  # type: ignore[attr-defined]
    described = getattr(site, "_described", None) or client.get("/openapi.json").json()
    site._described = described  # type: ignore[attr-defined]
    path = data.draw(st.sampled_from(sorted(described["paths"])))
    parameters = described["paths"][path]["get"].get("parameters", [])
    address = path
    query: dict[str, str] = {}
    for item in parameters:
        if item["in"] == "path":
            value = data.draw(
                st.one_of(st.sampled_from(sorted(TABLES)), ODD.filter(lambda text: text.strip("./") != ""))
            )
            address = address.replace("{" + item["name"] + "}", quote(value, safe=""))
        else:
            query[item["name"]] = data.draw(ODD)
    for name in ("sort", "after", "name", "agent", "window", "status", "kind"):
        if data.draw(st.booleans()):
            query[name] = data.draw(st.one_of(ODD, st.sampled_from(["start_time", "-updated", "name", "pnl"])))
    answer = client.get(address, params=query)
    assert answer.status_code in (200, 204, 400, 404), (address, query, answer.status_code, answer.text[:300])
    if answer.status_code == 200:
        assert isinstance(answer.json(), dict)
