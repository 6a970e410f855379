"""Charts and pages: records refuse nonsense, thinning keeps extremes, one shell, policies without inline code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from playproof.errors import ContractError
from playproof.games.crash.server.app import RunningServer, ServeConfig
from playproof.reports.chart import (
    MOST_POINTS,
    BandSeries,
    BarSeries,
    Chart,
    ChartAxis,
    LevelLine,
    MarkerSeries,
    Series,
    decimate,
)
from playproof.reports.page import PageSection, PageTable, Toned, embed, render

SOURCE = Path(__file__).resolve().parents[3] / "src" / "playproof"
HOSTILE = "</script><script>document.title='run'</script><img src=x onerror=alert(1)>\u2028&"


# Records


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Series(x=[1, 2], y=[1]), "expected 2 values of y"),
        (lambda: Series(x=[1], y=[1], low=[0]), "both ends"),
        (lambda: Series(x=[1], y=[1], low=[0], high=[1, 2]), "expected 1 values of high"),
        (lambda: Series(x=[1], y=[1], colour="red"), "expected a colour"),
        (lambda: Series(x=[1], y=[1], text=[]), "expected 1 values of text"),
        (lambda: BandSeries(x=[1]), "low and high of the band"),
        (lambda: ChartAxis(range=(2.0, 1.0)), "from low to high"),
        (lambda: ChartAxis(kind="log", range=(0.0, 1.0)), "above 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(make: Any, said: str) -> None:
    with pytest.raises(ContractError, match=re.escape(said)):
        make()


def test_values_that_are_not_finite_are_gaps() -> None:
    chart = Chart(title="gaps", series=[Series(x=[1, 2, 3], y=[np.float64(0.5), float("nan"), float("inf")])])
    assert chart.to_json()["series"][0]["y"] == [0.5, None, None]
    assert json.loads(embed(chart.to_json()))


def test_names_make_an_axis_of_names() -> None:
    chart = Chart(title="who", series=[BarSeries(name="a", y=["x", "y"], x=[1, 2]), BarSeries(y=["y", "z"], x=[3, 4])])
    payload = chart.to_json()
    assert payload["y"] == {"kind": "category", "categories": ["x", "y", "z"]}
    assert [item["y"] for item in payload["series"]] == [[0, 1], [1, 2]]
    twice = Chart(title="", y=ChartAxis(names=("n", "n")), series=[MarkerSeries(x=[1, 2], y=[0, 1])])
    assert twice.to_json()["y"]["categories"] == ["n", "n"], "names may come twice where positions are given"


def test_moments_become_milliseconds() -> None:
    moment = datetime(2026, 11, 18, 12, tzinfo=UTC)
    chart = Chart(title="", x=ChartAxis(kind="time"), series=[MarkerSeries(x=[moment], y=[1], name="steps")])
    assert chart.to_json()["series"][0]["x"] == [int(moment.timestamp() * 1000)]
    assert chart.rows()[1] == [["2026-11-18 12:00", "1"]]


def test_the_table_says_what_the_chart_shows() -> None:
    series = [
        Series(name="mean", x=[1, 2], y=[0.1, 0.2], low=[0.0, 0.1], high=[0.2, 0.3]),
        BarSeries(name="share", x=[2], y=[0.5], right=True),
    ]
    chart = Chart(title="t", x=ChartAxis(title="step"), right=ChartAxis(percent=True), series=series)
    assert chart.rows() == (
        ["step", "mean", "share"],
        [["1", "0.1 (0 to 0.2)", ""], ["2", "0.2 (0.1 to 0.3)", "50.00%"]],
    )


# Thinning


@given(st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), min_size=1, max_size=400), st.integers(1, 60), st.data())
def test_thinning_keeps_the_ends_of_every_column(values: list[float], columns: int, data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.floats(0, 10), min_size=len(values), max_size=len(values)))
    x, y = np.cumsum(steps), np.array(values)
    kept = decimate(x, y, columns)
    assert (np.diff(kept) > 0).all()
    assert {0, len(x) - 1} <= set(kept.tolist())
    assert len(kept) <= 5 * columns
    width = x[-1] - x[0]
    column = np.minimum(((x - x[0]) / width * columns).astype(int), columns - 1) if width else np.zeros(len(x), int)
    for number in np.unique(column):
        inside = np.flatnonzero(column == number)
        shown = y[np.intersect1d(inside, kept)]
        known = y[inside][np.isfinite(y[inside])]
        assert {inside[0], inside[-1]} <= set(kept.tolist())
        assert np.isnan(shown).any() == np.isnan(y[inside]).any(), "a gap stays a gap"
        if len(known):
            assert (np.nanmin(shown), np.nanmax(shown)) == (known.min(), known.max())


def test_a_long_series_is_thinned_and_keeps_its_peak() -> None:
    y = np.sin(np.arange(100_000) / 900)
    y[77_777] = 9.0
    (drawn,) = Chart(title="", series=[Series(x=range(100_000), y=y)]).to_json()["series"]
    assert len(drawn["x"]) == len(drawn["y"]) <= MOST_POINTS
    assert (drawn["x"][0], drawn["x"][-1]) == (0, 99_999)
    assert drawn["x"][drawn["y"].index(9.0)] == 77_777


def test_a_page_of_many_long_series_stays_light() -> None:
    rng = np.random.default_rng(1)
    series = [Series(name=str(n), x=range(50_000), y=rng.normal(size=50_000)) for n in range(4)]
    names = [f"window-{n:032}" for n in range(50_000)]
    marks = MarkerSeries(x=range(50_000), y=rng.normal(size=50_000), text=names)
    charts = [Chart(title=str(n), series=series) for n in range(4)]
    page = render(
        "report.html", title="big", charts=charts, sections=[PageSection("", [Chart(title="", series=[marks])])]
    )
    assert len(page.encode()) < 1_000_000


# The shell


def test_there_is_one_shell() -> None:
    shells = [
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*")
        if path.suffix in {".py", ".html", ".js"} and re.search("<!doctype", path.read_text(encoding="utf-8"), re.I)
    ]
    assert sorted(shells) == ["games/crash/server/page/index.html", "reports/templates/base.html"]
    assert not [path for path in SOURCE.rglob("*.py") if "plotly" in path.read_text(encoding="utf-8").lower()]


def hostile_page(**options: Any) -> str:
    chart = Chart(title=HOSTILE, series=[Series(name=HOSTILE, x=[1, 2], y=[1, 2], text=[HOSTILE] * 2)])
    table = PageTable(head=(HOSTILE, HOSTILE), rows=[(HOSTILE, Toned(HOSTILE, "good"))])
    sections = [PageSection(HOSTILE, [HOSTILE, table, PageSection(HOSTILE, [chart], folded=True)])]
    facts = [(HOSTILE, HOSTILE)]
    return render(
        "report.html", title=HOSTILE, lead=HOSTILE, facts=facts, lines=[HOSTILE], charts=[chart], sections=sections,
        settings=facts, footer=HOSTILE, **options,
    )  # fmt: skip


def test_hostile_texts_are_text() -> None:
    page = hostile_page()
    assert "<script>document" not in page
    assert "<img" not in page
    assert "\u2028" not in embed(HOSTILE)
    assert json.loads(embed(HOSTILE)) == HOSTILE


def test_a_file_allows_its_own_style_and_script_by_hash_alone() -> None:
    page = render("report.html", title="t")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; ")
    assert not re.search(r"<[^>]+\s(style|on\w+)=", page), "neither style attributes nor handlers"
    assert not re.search(r"(src|href)=", page.split("</style>")[1].split("<script>")[0])


def test_a_served_page_links_to_files() -> None:
    page = render("report.html", title="t", static_url="/static/")
    assert '<link rel="stylesheet" href="/static/style.css">' in page
    assert '<script src="/static/chart.js"></script>' in page
    assert not re.search(r"<script>|<style", page)


# In a browser


@pytest.fixture(scope="module")
def browser(chromium: Path) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        launched = play.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        yield launched
        launched.close()


def opened(browser: Any, address: str, width: int = 1280, scheme: str = "light", **more: Any) -> tuple[Any, list[str]]:
    """Open a page; give it, and all that it complains of, a violated policy included."""
    page = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme, **more).new_page()
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("console", lambda said: said.type in ("error", "warning") and failures.append(said.text))
    page.goto(address)
    return page, failures


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give a page that draws every kind of series, and on which more are drawn from the test."""
    steps = list(range(300))
    wave = [float(np.sin(step / 20)) for step in steps]
    charts = [
        Chart(
            title="lines",
            x=ChartAxis(title="step"),
            series=[
                BandSeries(name="band", x=steps, low=[v - 0.2 for v in wave], high=[v + 0.2 for v in wave]),
                Series(name="wave", x=steps, y=wave, points=True),
                MarkerSeries(name="marks", x=[30, 60], y=[1.0, 0.1], symbol="cross", text=["first", "second"]),
            ],
            levels=[LevelLine(value=0.5, name="level")],
            wide=True,
        ),
        Chart(title="log", y=ChartAxis(kind="log"), series=[Series(x=[1, 2, 3], y=[0.01, 1, 400], step=True)]),
        Chart(title="bars", stacked=True, series=[BarSeries(name=n, x=["a", "b"], y=[1, 2]) for n in ("one", "two")]),
        Chart(title="names", series=[BarSeries(y=["long name " * 3, "b"], x=[0.2, -0.1], low=[0, -1], high=[1, 0])]),
        Chart(
            title="times",
            x=ChartAxis(kind="time"),
            series=[MarkerSeries(x=[datetime(2026, 1, day, tzinfo=UTC) for day in (1, 9, 20)], y=[1, 3, 2])],
            hover="point",
        ),
    ]
    path = tmp_path_factory.mktemp("charts") / "charts.html"
    path.write_text(render("report.html", title="charts", charts=charts), encoding="utf-8")
    return path.as_uri()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_kind_is_drawn_in_both_themes_on_both_screens(browser: Any, large: str, width: int, scheme: str) -> None:
    page, failures = opened(browser, large, width, scheme, offline=True)
    page.wait_for_selector("figure[data-drawn] >> nth=4")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    inked = page.evaluate(
        """[...document.querySelectorAll("canvas")].map((canvas) => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const colours = new Set();
          for (let i = 0; i < data.length; i += 4)
            if (data[i + 3] > 250) colours.add(65536 * data[i] + 256 * data[i + 1] + data[i + 2]);
          return colours.size;
        })"""
    )
    assert len(inked) == 5
    assert min(inked) > 3, "axes, names and values have their colours"
    ink = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()")
    assert ink == ("#1b2430" if scheme == "light" else "#e6edf3")
    assert not failures
    page.context.close()


@pytest.mark.browser
def test_a_change_of_theme_draws_again(browser: Any, large: str) -> None:
    page, failures = opened(browser, large)
    figure = page.locator("figure").first
    page.wait_for_selector("figure[data-drawn]")
    page.wait_for_timeout(100)
    before = int(figure.get_attribute("data-drawn"))
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(200)
    assert int(figure.get_attribute("data-drawn")) > before
    ink = "getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()"
    assert page.evaluate(f"dispatchEvent(new Event('beforeprint')), {ink}") == "#1b2430", "paper is white"
    assert page.evaluate(f"dispatchEvent(new Event('afterprint')), {ink}") == "#e6edf3"
    assert not failures
    page.context.close()


@pytest.mark.browser
def test_points_are_read_zoomed_and_hidden(browser: Any, large: str) -> None:
    page, failures = opened(browser, large)
    figure = page.locator("figure").first
    box, tip = figure.locator(".chart-box"), figure.locator(".chart-tip")
    edges = box.bounding_box()
    middle = (edges["x"] + edges["width"] / 2, edges["y"] + 120)
    page.mouse.move(*middle)
    assert re.match(r"step 1[45]\d", tip.inner_text())
    assert "wave: " in tip.inner_text()
    assert " to " in tip.inner_text(), "the band says its ends"
    page.mouse.down()
    page.mouse.move(middle[0] + 120, middle[1])
    page.mouse.up()
    back = figure.locator(".chart-back")
    back.wait_for(state="visible")
    page.mouse.move(edges["x"] + 100, middle[1])
    assert re.match(r"step 1[45]\d", tip.inner_text()), "the left edge is now where the drag began"
    page.mouse.dblclick(*middle)
    back.wait_for(state="hidden")
    box.focus()
    page.mouse.wheel(0, -300)
    back.wait_for(state="visible")
    back.click()
    back.wait_for(state="hidden")
    box.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert tip.inner_text().startswith("step 1\n")
    page.keyboard.press("+")
    back.wait_for(state="visible")
    page.keyboard.press("0")
    back.wait_for(state="hidden")
    entry = figure.locator(".chart-legend button", has_text="wave")
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"
    page.mouse.move(*middle)
    assert "wave: " not in tip.inner_text()
    assert figure.locator("canvas").get_attribute("aria-label") == "lines"
    figure.locator("summary").click()
    assert figure.locator("details td").first.is_visible()
    assert not failures
    page.context.close()


@pytest.mark.browser
def test_a_hundred_thousand_points_stay_smooth(browser: Any, large: str) -> None:
    page, failures = opened(browser, large)
    page.wait_for_selector("figure[data-drawn]")
    times = page.evaluate(
        """async () => {
          const node = document.createElement("figure");
          document.querySelector("main").prepend(node);
          const x = Array.from({ length: 100000 }, (_, i) => i);
          const y = x.map((i) => Math.sin(i / 500) + (i === 77777 ? 9 : 0));
          const chart = new playproof.Chart(node, { x: { title: "i" }, series: [{ name: "wave", x, y }] });
          const timed = (act) => { const start = performance.now(); act(); return performance.now() - start; };
          const middle = (act) => Array.from({ length: 7 }, () => timed(act)).sort((a, b) => a - b)[3];
          chart.draw();
          const drawing = middle(() => chart.draw());
          const peak = chart.scaleY.high;
          const hovering = middle(() => chart.showTip(300 + 100 * Math.random(), 50));
          chart.zoomTo(20000, 30000);
          const zoomed = middle(() => chart.draw());
          const range = [...chart.rangeX];
          chart.reset();
          chart.append(0, { x: [100000, 100001], y: [20, null] });
          chart.draw();
          return { drawing, hovering, zoomed, range, peak, size: chart.series[0].size, grown: chart.scaleY.high };
        }"""
    )
    assert times["drawing"] < 50, "twenty frames a second on a busy machine; 3 to 6 ms on an idle one"
    assert times["zoomed"] < 50
    assert times["hovering"] < 16
    assert times["range"] == [20000, 30000]
    assert times["peak"] > 8, "the one high point is not lost"
    assert (times["size"], times["grown"] > 20) == (100_002, True)
    assert not failures
    page.context.close()


@pytest.mark.browser
def test_hostile_texts_run_nothing(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(hostile_page(), encoding="utf-8")
    page, failures = opened(browser, path.as_uri(), 390)
    page.wait_for_selector("figure[data-drawn]")
    assert page.title() != "run"
    assert page.evaluate("document.images.length") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not failures
    page.context.close()


@pytest.mark.browser
def test_what_a_file_does_not_hold_is_not_run(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "changed.html"
    text = render("report.html", title="own")
    path.write_text(text.replace("</body>", "<script>document.title = 'run'</script></body>"), encoding="utf-8")
    page, failures = opened(browser, path.as_uri())
    assert page.title() == "own"
    assert "Content Security Policy" in " ".join(failures)
    page.context.close()


@pytest.mark.browser
def test_the_game_page_keeps_a_policy_without_inline_code(browser: Any) -> None:
    with RunningServer(ServeConfig(port=0, seed=14, manual=True)) as server:
        page, failures = opened(browser, server.url)
        answer = page.request.get(server.url + "/")
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert not re.search(r"<script>|<style|\sstyle=|\son\w+=", answer.text())
        for name in ("style.css", "chart.js"):
            assert page.request.get(f"{server.url}/static/{name}").ok
        page.wait_for_selector("#chart[data-drawn] canvas")
        assert not failures
        page.context.close()


def test_actions_have_one_palette_everywhere() -> None:
    """BUY is green and SELL amber on the game page, on data cards, in reports and in replays."""
    from playproof.games.crash.rules.actions import ACTIONS
    from playproof.reports import chart

    head = ACTIONS["buttons"].heads[0]
    colours = [chart.action_colour(name, head) for name in ("WAIT", "BUY", "SELL", "SIDEBET")]
    assert colours == ["dim", "good", "warn", "blue"]
    package = Path(chart.__file__).parents[1]
    page = "".join(path.read_text() for path in (package / "games/crash/server/page").glob("*.css"))
    assert ".buy { background: var(--good)" in page
    assert ".sell { background: var(--warn)" in page
    replay = (package / "reports/static/replay.js").read_text()
    listed = ", ".join(f'"{colour}"' for colour in chart.ACTION_COLOURS)
    assert f"const ACTIONS = [{listed}];" in replay
