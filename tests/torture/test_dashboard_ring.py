"""The whole way from the page: record, build, train, validate, keep and promote a model, a bot on paper, kill it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from playproof.games.crash.server.app import RunningServer, ServeConfig

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.torture, pytest.mark.browser]
PATIENT = 240_000


@pytest.fixture
def link(home: Path) -> Iterator[str]:
    home.mkdir(parents=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "playproof", "dashboard", "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        match = re.search(r"http://\S+", process.stderr.readline())
        assert match
        yield match[0]
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


def submit(page: Any, action: str, **values: str) -> None:
    """Fill a form in and send it."""
    for details in page.locator("details.block:not([open]) > summary").all():
        details.click()
    form = page.locator(f"form[action='/do/{action}']:not(.kill)").first
    for name, value in values.items():
        field = form.locator(f"[name={name}]")
        if field.evaluate("node => node.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    form.locator("button").click()


def ended(page: Any, *states: str) -> None:
    """Wait on a job's page, which is live, until it has ended."""
    state = page.locator("#state dd").first
    playwright.expect(state).to_have_text(re.compile("done|failed|cancelled"), timeout=PATIENT)
    assert state.inner_text() in (states or ("done",)), page.locator("#log").inner_text()


def test_from_a_recording_to_a_killed_bot(link: str, chromium: Path, home: Path) -> None:
    base = link.partition("/enter")[0]
    with (
        RunningServer(ServeConfig(port=0, speed=20, seed=14)) as table,
        playwright.sync_playwright() as driver,
    ):
        browser = driver.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(PATIENT)
        page.goto(link)
        page.goto(f"{base}/recordings")
        submit(page, "record", url=table.url, rounds="4", session="from-the-page")
        ended(page)
        page.goto(f"{base}/recordings/from-the-page")
        assert page.locator("#windows tbody tr").count() >= 3
        page.goto(f"{base}/datasets")
        submit(page, "datasets/build", name="mine", split="train=0.6,validation=0.4", gap="0")
        ended(page)
        page.goto(f"{base}/datasets")
        page.locator("#datasets tbody a").first.click()
        page.wait_for_selector("#distribution figure canvas")
        page.goto(f"{base}/runs")
        submit(
            page,
            "train",
            name="tiny",
            method="ppo",
            world="drift",
            steps="16384",
            settings="evaluate_every=1 restarts=1 evaluate_windows=32",
        )
        page.goto(f"{base}/jobs")
        job = page.locator("#jobs tbody a").first.get_attribute("href")
        page.wait_for_timeout(500)
        for _ in range(600):
            if (home / "runs" / "tiny" / "config.json").exists():
                break
            page.wait_for_timeout(200)
        page.goto(f"{base}/runs/tiny")
        body = page.locator("body")
        playwright.expect(body).to_have_attribute("data-changes", re.compile("[0-9]+"), timeout=PATIENT)
        page.goto(base + str(job))
        ended(page)
        page.goto(f"{base}/proof")
        submit(page, "validate", policy="tiny", world="drift", rounds="30")
        ended(page)
        page.goto(f"{base}/proof")
        assert page.locator("#reports tbody tr").count() == 1
        page.goto(f"{base}/models")
        submit(page, "models/add", run="tiny", name="trader")
        ended(page)
        page.goto(f"{base}/models/trader")
        submit(page, "models/promote", version="1", alias="paper", why="a test")
        page.get_by_role("button", name="Promote trader:1").click()
        playwright.expect(page.locator("#history")).to_contain_text("a test")
        page.goto(f"{base}/bots")
        submit(page, "bots/start", policy="baseline:hold-40", url=table.url, account="mine")
        page.goto(f"{base}/bots")
        for _ in range(600):
            if page.locator("#bots tbody tr").count():
                break
            page.wait_for_timeout(200)
        playwright.expect(page.locator("#bots tbody")).to_contain_text("running", timeout=PATIENT)
        page.get_by_role("button", name="Kill all bots").click()
        page.wait_for_url("**/bots?said=**")
        playwright.expect(page.locator("#bots tbody")).to_contain_text("killed", timeout=PATIENT)
        playwright.expect(page.locator("#bots tbody")).not_to_contain_text("running", timeout=PATIENT)
        browser.close()
