"""Make every page and take its picture: in both themes, at 1280 and 390 pixels; say what weighs too much or complains.

    python scripts/screens.py /tmp/screens                  # everything
    python scripts/screens.py /tmp/screens compare replay   # some pages

The pages are made by the commands that make them for a user, in a home of their own inside the folder; those that
are already there are only shown again.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "unit" / "train"), str(ROOT)]
WIDTHS, SCHEMES = (1280, 390), ("light", "dark")
MOST_BYTES = 1_000_000


def command(*words: str) -> None:
    """Run a command of Playproof."""
    from playproof.cli.app import main

    if main(list(words)) not in (0, 2):
        raise SystemExit(f"failed: playproof {' '.join(words)}")


def recordings(folder: Path) -> Path:
    """Write recordings as the old recorder did."""
    from old_recordings import write_recordings

    path = folder / "recordings"
    if not path.exists():
        write_recordings(path, 40)
    return path


def demo(folder: Path) -> Path:
    """Make the demonstration."""
    command("crash", "demo", "--output", str(folder / "demo"), "--rounds", "20000", "--played", "400")
    return folder / "demo" / "index.html"


def validation(folder: Path) -> Path:
    """Validate a baseline."""
    command("validate", "hold-40", "--world", "published", "--rounds", "400", "--output", str(folder / "validation"))
    return folder / "validation" / "report.html"


def compare(folder: Path) -> Path:
    """Compare baselines."""
    path = folder / "compare.html"
    command("compare", "wait", "hold-40", "sidebet", "human", "--rounds", "300", "--output", str(path))
    return path


def replay(folder: Path) -> Path:
    """Replay a clone of a scripted player, which has thoughts."""
    run = folder / "home" / "runs" / "clone"
    if not run.exists():
        bc(folder)
    path = folder / "replay.html"
    command("replay", str(run), "--world", "published", "--rounds", "40", "--show", "8", "--output", str(path))
    return path


def bc(folder: Path) -> Path:
    """Clone a scripted player."""
    run = folder / "home" / "runs" / "clone"
    if not run.exists():
        words = ("--game", "crash", "--world", "published", "--player", "human", "--rounds", "120")
        command("train", "bc", *words, "--set", "epochs=4", "--set", "hidden=[16]", "--name", "clone")
    return run / "report.html"


def ppo(folder: Path) -> Path:
    """Write the page of a long run of PPO from notes as a run keeps them."""
    rng = np.random.default_rng(1)
    notes: list[dict[str, Any]] = []
    names = ("BUY", "SELL", "SIDEBET")
    for step in range(0, 2_000_001, 20_000):
        pnl = -2e6 * np.exp(-step / 4e5) + 1e5 * rng.normal()
        mix = {name: float(share) for name, share in zip(names, rng.dirichlet((4, 3, 1)) * 0.2, strict=True)}
        parts = {"profit": pnl / 1e8, "drawdown": -0.01 * rng.random()}
        notes.append({"kind": "evaluation", "step": step, "pnl": pnl, "pnl_se": 1.5e5, "alarm": step == 800_000,
                      "reward": sum(parts.values()), "components": parts, "mix": {"WAIT": 0.8, **mix}})  # fmt: skip
    for step in range(0, 2_000_001, 500):
        names = ("loss", "policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")
        notes.append({"kind": "train", "step": step} | {name: float(rng.normal(0.2, 0.05)) for name in names})
    return written(folder / "ppo", "ppo", notes, {"steps": 2_000_000})


def grpo(folder: Path) -> Path:
    """Write the page of a run of GRPO from notes as a run keeps them."""
    from test_language_figures import held

    rng = np.random.default_rng(2)
    notes = []
    for step in range(81):
        if step % 8 == 0:
            gain = {"gain": 8.0, "gain_low": 2.0, "gain_high": 15.0}
            notes.append(held(step, 6 + 0.1 * step + rng.normal(), 0.9 + 0.1 * rng.random(), **gain))
        scores = np.sort(rng.normal(0.002 * step, 0.2, 3))
        notes.append({"kind": "grpo", "step": step, "windows": 8, "flat": int(rng.integers(0, 5)),
                      "kl": rng.random() / 50, "score_min": scores[0],
                      "score_mean": scores[1], "score_max": scores[2]})  # fmt: skip
    ends = [note for note in notes if note["kind"] == "holdout"]
    return written(folder / "grpo", "grpo", notes, {"iterations": 80, "before": ends[0], "after": ends[-1]})


def lessons(folder: Path) -> Path:
    """Write the page of a run that tuned, compared players and calibrated a predictor."""
    rng = np.random.default_rng(3)
    notes: list[dict[str, Any]] = []
    notes += [{"kind": "rounds", "step": n, "head_0": 1 - 3 / n, "head_1": 0.9 - 2 / n} for n in (10, 20, 50, 100, 200)]
    notes += [{"kind": "trial", "step": n, "worth": float(rng.normal(-0.02, 0.02))} for n in range(40)]
    names = ("wait", "hold-10", "hold-40", "sidebet", "the tuned policy with a long name")
    notes += [
        {"kind": "player", "step": 0, "name": name, "roi": float(rng.normal(-0.02, 0.02)), "se": 0.01} for name in names
    ]
    for p in np.linspace(0.05, 0.6, 10):
        seen = float(p + rng.normal(0, 0.02))
        notes.append(
            {"kind": "bin", "step": 0, "predicted": p, "observed": seen, "low": seen - 0.04, "high": seen + 0.05}
        )
    return written(folder / "lessons", "tune", notes, {"best": 0.01})


def written(path: Path, method: str, notes: list[dict[str, Any]], result: dict[str, Any]) -> Path:
    """Write a run's folder and its page."""
    from playproof.reports.run import write_page

    path.mkdir(parents=True, exist_ok=True)
    payload = {"method": method, "commit": "0" * 12, "config": {"seed": 1, "lr": 3e-4, "hidden": [64, 64]}}
    (path / "config.json").write_text(json.dumps(payload))
    (path / "result.json").write_text(json.dumps(result))
    (path / "log.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
    return write_page(path)


def audit(folder: Path) -> Path:
    """Audit recordings."""
    command("audit", str(recordings(folder)), "--out", str(folder / "audit.html"))
    return folder / "audit.html"


def dataset(folder: Path) -> Path:
    """Build a data set and its card."""
    command("import", "legacy", str(recordings(folder)), "--zone", "UTC")
    command("dataset", "build", "mine")
    command("dataset", "show", "mine", "--out", str(folder / "dataset.html"))
    return folder / "dataset.html"


def review(folder: Path) -> Path:
    """Review a player's own event store."""
    from own_store import write_own_store

    store = folder / "event-store"
    if not store.exists():
        write_own_store(store, 24)
    pages = folder / "review"
    if not pages.exists():
        command("review", str(store), "--output", str(pages))
    return pages / "review.html"


def reviewed_rounds(folder: Path) -> Path:
    """Replay the rounds of the reviewed player."""
    review(folder)
    return folder / "review" / "replay.html"


def leaderboard(folder: Path) -> Path:
    """Rank scripted players of the arena."""
    command("arena", "bench", "balanced", "contrarian", "--windows", "4", "--out", str(folder / "leaderboard"))
    return folder / "leaderboard" / "leaderboard.html"


def trajectory(folder: Path) -> Path:
    """Show one trajectory of the arena."""
    from playproof.home import home
    from playproof.store.db import opened, ready
    from playproof.store.db.trajectories import list_trajectories

    command("arena", "run", "--agents", "5", "--windows", "1", "--seed", "4")
    with opened(home()) as engine:
        one = list_trajectories(ready(engine), limit=1)[0]
    command("arena", "trajectories", "show", one.trajectory_id, "--html", str(folder / "trajectory.html"))
    return folder / "trajectory.html"


PAGES: dict[str, Callable[[Path], Path]] = {
    function.__name__: function
    for function in (
        *(demo, validation, compare, bc, replay, ppo, grpo, lessons, audit, dataset, leaderboard, trajectory),
        *(review, reviewed_rounds),
    )
}
"""File reports by name; `game` is the served page."""


class Camera:
    """A browser that takes pictures and remembers complaints."""

    def __init__(self, browser: Any, folder: Path) -> None:
        self.browser, self.folder = browser, folder
        self.complaints: list[str] = []

    def open(self, width: int, scheme: str, name: str, offline: bool = True) -> Any:
        """Open an empty page of a width and a theme."""
        context = self.browser.new_context(
            viewport={"width": width, "height": 844}, color_scheme=scheme, offline=offline, has_touch=width < 500
        )
        page = context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(f"{name}: {error}"))
        page.on("console", lambda said: said.type == "error" and self.complaints.append(f"{name}: {said.text}"))
        return page

    def shoot(self, page: Any, name: str) -> None:
        """Take the picture of the whole page; remember when it is wider than the window."""
        page.wait_for_timeout(300)
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if wide > 0:
            self.complaints.append(f"{name}: {wide} pixels too wide")
        page.screenshot(path=self.folder / f"{name}.png", full_page=True)


def show_report(camera: Camera, name: str, path: Path) -> None:
    """Take the pictures of a file report."""
    size = path.stat().st_size
    print(f"{name}: {size / 1000:,.0f} kB")
    if size > MOST_BYTES:
        camera.complaints.append(f"{name}: weighs {size:,} bytes")
    for width in WIDTHS:
        for scheme in SCHEMES:
            page = camera.open(width, scheme, name)
            page.goto(path.as_uri())
            camera.shoot(page, f"{name}-{width}-{scheme}")
            page.context.close()


def show_game(camera: Camera) -> None:
    """Take the pictures of the game page: in a round with a position, after its rug, and a finished round."""
    from playproof.games.crash.rules.windows import Phase
    from playproof.games.crash.server.app import RunningServer, ServeConfig

    for width in WIDTHS:
        for scheme in SCHEMES:
            with RunningServer(ServeConfig(port=0, seed=14, manual=True)) as server:
                page = camera.open(width, scheme, "game", offline=False)
                page.goto(server.url)
                page.fill("#login-name", "Ada")
                page.click("#login-go")
                server.advance_to(Phase.PRESALE)
                page.wait_for_selector("body[data-phase=presale]")
                camera.shoot(page, f"game-presale-{width}-{scheme}")
                page.click('[data-button="BUY"]')
                page.click('[data-button="SIDEBET"]')
                server.advance_to(Phase.ACTIVE, 25)
                page.wait_for_selector("#tick:text-is('25')")
                camera.shoot(page, f"game-live-{width}-{scheme}")
                server.advance_to(Phase.RUGGED)
                page.wait_for_selector("body[data-phase=rugged]")
                camera.shoot(page, f"game-rugged-{width}-{scheme}")
                server.advance_to(Phase.COOLDOWN)
                page.click("#history button >> nth=0")
                page.click("#verify")
                page.wait_for_selector("#proof li")
                camera.shoot(page, f"game-round-{width}-{scheme}")
                page.context.close()


def run(folder: Path, names: list[str]) -> list[str]:
    """Make the named pages and take their pictures; give the complaints."""
    from playwright.sync_api import sync_playwright

    from playproof.record.feeds.chromium import find_chromium

    folder.mkdir(parents=True, exist_ok=True)
    os.environ["PLAYPROOF_HOME"] = str(folder / "home")
    failed, paths = [], {}
    for name in names:  # before the browser starts: its event loop would bar those of the commands
        try:
            if name != "game":
                paths[name] = PAGES[name](folder)
        except SystemExit as error:
            failed.append(f"{name}: {error}")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=str(find_chromium()), args=["--no-sandbox"])
        camera = Camera(browser, folder)
        for name, path in paths.items():
            show_report(camera, name, path)
        if "game" in names:
            show_game(camera)
        browser.close()
    return failed + camera.complaints


if __name__ == "__main__":
    target, *chosen = sys.argv[1:]
    problems = run(Path(target).resolve(), chosen or [*PAGES, "game"])
    print(*problems, sep="\n")
    sys.exit(bool(problems))
