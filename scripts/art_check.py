"""Run OpenPipe ART's own package against what this product writes: its classes, its RULER, its client, and W&B offline.

    make art                                   # makes .venv-art, runs this there, writes docs/results/art.md
    .venv-art/bin/python scripts/art_check.py --json

Every endpoint is a server on this machine that answers by a script and keeps the requests; nothing leaves the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any

GROUPS, MEMBERS = 24, 6
OPTIONS: dict[str, Any] = {"others": []}
FAULTS = (
    "other order",
    "a score missing",
    "an id twice",
    "an unknown id",
    "a score of 7",
    "a score as text",
    "text before the JSON",
    "an empty answer",
    "likes the empty episode",
)


@dataclass
class Endpoint:
    """A server that answers by a function of path and body, and keeps what it was asked."""

    answer: Callable[[str, str, dict[str, Any]], tuple[int, Any]]
    requests: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    url: str = ""


@contextmanager
def serving(answer: Callable[[str, str, dict[str, Any]], tuple[int, Any]]) -> Iterator[Endpoint]:
    """Serve an endpoint on a free port until the block ends."""
    endpoint = Endpoint(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _take(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                body = json.loads(raw) if raw else {}
            except ValueError:
                body = {}  # W&B sends some of its own telemetry in binary form
            endpoint.requests.append((self.command, self.path, body))
            status, payload = endpoint.answer(self.command, self.path, body)
            content = json.dumps(payload).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _take  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()


def completion(content: str, **more: Any) -> dict[str, Any]:
    """Give an answer in OpenAI's form."""
    message = {"role": "assistant", "content": content, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None} | more
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def scored_groups(decisions: int, groups: int = GROUPS) -> list[Any]:
    """Play forked windows of the arena with a small random model, so that answers carry tokens; score by money."""
    from playproof.train.language.grpo_sources import score

    from playproof.game import load_game
    from playproof.game.forks import ForkTerms
    from playproof.judge.computed import computed
    from playproof.train.language.rollout import model_player, play, scripted_player
    from playproof.train.language.tiny import make_tiny

    arena, terms = load_game("arena"), ForkTerms("clear", 1, decisions, "brief", OPTIONS)
    lessons = play(arena, terms, range(8), 1, scripted_player("headline", (1,)), None)
    exchanges = [exchange for item in lessons for episode in item.group.episodes for exchange in episode.exchanges]
    texts = [text for item in exchanges for text in (*(content for _, content in item.messages), item.answer)]
    model = make_tiny(texts, 1, width=64, layers=1)
    sampled = play(arena, terms, range(groups), MEMBERS, model_player(model, 12, (1,)), "small@0")
    scripted = play(arena, terms, range(groups), MEMBERS, scripted_player("headline:0.6", (2,)), None)
    return [
        (score(own.group, own.outcomes, computed), own.judged(), other.judged())
        for own, other in zip(sampled, scripted, strict=True)
    ]


def check_classes(played: Sequence[Any]) -> dict[str, Any]:
    """Let ART's own classes read our groups, write them again, and compare value by value."""
    import art

    from playproof.datasets.conversations.art import from_art_group
    from playproof.train.language.art import art_groups, to_trajectory_group

    counts = {"groups": 0, "trajectories": 0, "choices": 0, "equal": 0, "turns": 0}
    # A random model earns nothing anywhere, and groups of equal rewards are left out: rewards are set by number here.
    ranked = [replace(scored, rewards=tuple(at / 8 for at in range(len(scored.rewards)))) for scored, _, _ in played]
    for payload in art_groups(ranked):
        group = to_trajectory_group(art, payload)
        written = json.loads(group.model_dump_json())
        histories = [item for trajectory in group for item in (trajectory, *trajectory.additional_histories)]
        counts["groups"] += 1
        counts["trajectories"] += len(group)
        counts["choices"] += sum(
            isinstance(turn, art.trajectories.Choice) for item in histories for turn in item.messages_and_choices
        )
        counts["turns"] += sum(view.turns for view in from_art_group(payload))
        counts["equal"] += from_art_group(written) == from_art_group(payload)
    if not counts["groups"] == counts["equal"] == len(played) or counts["choices"] != counts["turns"]:
        raise SystemExit(f"expected {len(played)} equal groups whose answers are all Choices, found {counts}")
    return counts


def quality(answers: Sequence[str]) -> float:
    """Score an episode by its text alone, as a script can: other answers, another score; none, 0."""
    text = "".join(answers)
    return round(zlib.crc32(text.encode()) % 997 / 1000, 4) if text.strip() else 0.0


def judge_answers(fault: str | None) -> Callable[[str, str, dict[str, Any]], tuple[int, Any]]:
    """Answer as a judge for both prompts, ours and RULER's; with a fault in how the answer is written."""

    def answer(_: str, __: str, body: dict[str, Any]) -> tuple[int, Any]:
        text = "\n".join(message["content"] for message in body["messages"])
        nonce = re.search(r"The nonce is (\w+)\.", text)
        name = "id" if nonce else "trajectory_id"
        if nonce:
            fences = re.findall(rf"<{nonce[1]} agent (\w+)>\n(.*?)\n?</{nonce[1]}>", text, re.DOTALL)
            said = {
                label: [row["content"] for row in map(json.loads, body.splitlines()) if row["role"] == "agent"]
                for label, body in fences
            }
        else:
            shown = re.findall(r'<trajectory id="(\d+)">\n(.*?)\n</trajectory>', text, re.DOTALL)
            said = {
                label: [turn["content"] for turn in json.loads(body) if turn["role"] == "assistant"]
                for label, body in shown
            }
        rows: list[dict[str, Any]] = [
            {name: label, "explanation": "by script", "score": quality(answers)} for label, answers in said.items()
        ]
        if fault == "other order":
            rows.reverse()
        elif fault == "a score missing":
            rows.pop()
        elif fault == "an id twice":
            rows[-1] = dict(rows[0])
        elif fault == "an unknown id":
            rows[-1] = rows[-1] | {name: "nobody"}
        elif fault == "a score of 7":
            rows[0] = rows[0] | {"score": 7.0}
        elif fault == "a score as text":
            rows[0] = rows[0] | {"score": str(rows[0]["score"])}
        elif fault == "likes the empty episode":
            for row in rows:
                row["score"] = 0.9 if not "".join(said[row[name]]).strip() else row["score"]
        content = json.dumps(({"nonce": nonce[1]} if nonce else {}) | {"scores": rows})
        if fault == "text before the JSON":
            content = "Here are the scores:\n" + content
        return 200, completion("" if fault == "an empty answer" else content)

    return answer


def as_art(group: Any, art: Any) -> Any:
    """Give a judged group as ART's, the same conversations in the same order."""
    from playproof.datasets.conversations.art import to_art_group
    from playproof.train.language.art import to_trajectory_group

    return to_trajectory_group(art, to_art_group([contender.view.played for contender in group.contenders]))


async def ruler_scores(group: Any, url: str) -> list[float] | str:
    """Let RULER score a group; give the scores in the group's order, or how it failed."""
    from art.rewards import ruler_score_group

    options = {"api_base": f"{url}/v1", "api_key": "none", "num_retries": 0}
    try:
        scored = await ruler_score_group(group, "openai/scripted", extra_litellm_params=options)
    except Exception as error:  # noqa: BLE001 - whatever it raises is what is measured
        return f"raises {type(error).__name__}"
    return [float(trajectory.reward) for trajectory in scored]


def our_scores(group: Any, url: str) -> list[float] | str:
    """Let our judge score a group; give the scores in the group's order, or the reason of the refusal."""
    from playproof.judge.asking import JudgeSettings
    from playproof.judge.judging import Judge

    judge = Judge(JudgeSettings("scripted", f"{url}/v1", api_key="none", attempts=1))
    result = judge.score(group)
    if result.scores is None:
        assert result.failure is not None
        return f"refuses: {result.failure.reason}"
    return [result.scores.values[name] for name in group.names]


def with_empty_episode(group: Any) -> Any:
    """Give a group whose last episode answers nothing."""
    *others, last = group.contenders
    return replace(group, contenders=(*others, last.answering("")))


def check_ruler(played: Sequence[Any], several: Any) -> dict[str, Any]:
    """Score the same groups by RULER and by our judge at the same endpoint; then with faults in the answers."""
    import art

    rows: list[tuple[list[float], list[float]]] = []
    judged = [item for _, own, scripted in played for item in (own, scripted)]
    with serving(judge_answers(None)) as endpoint:
        theirs_all = asyncio.run(_all_rulers([as_art(group, art) for group in judged], endpoint.url))
        for group, theirs in zip(judged, theirs_all, strict=True):
            ours = our_scores(group, endpoint.url)
            if isinstance(theirs, str) or isinstance(ours, str):
                raise SystemExit(f"expected scores by a sound judge, found {theirs} and {ours}")
            rows.append((theirs, ours))
        histories = {
            "ruler": asyncio.run(ruler_scores(as_art(several, art), endpoint.url)),
            "ours": our_scores(several, endpoint.url),
        }
    pairs = [
        (theirs[a] - theirs[b], ours[a] - ours[b])
        for theirs, ours in rows
        for a in range(len(theirs))
        for b in range(a)
    ]
    ordered = [(x, y) for x, y in pairs if x and y]
    faults = {}
    group = next(item for item in judged if len({quality(one.answers) for one in item.contenders}) == MEMBERS)
    for fault in FAULTS:
        subject = with_empty_episode(group) if fault == "likes the empty episode" else group
        right = [quality(contender.answers) for contender in subject.contenders]
        with serving(judge_answers(fault)) as endpoint:
            theirs = asyncio.run(ruler_scores(as_art(subject, art), endpoint.url))
            ours = our_scores(subject, endpoint.url)
        faults[fault] = {"ruler": _outcome(theirs, right), "ours": _outcome(ours, right)}
    return {
        "groups": len(rows),
        "largest_difference": max(abs(x - y) for theirs, ours in rows for x, y in zip(theirs, ours, strict=True)),
        "pairs": len(ordered),
        "pairs_ordered_alike": sum((x > 0) == (y > 0) for x, y in ordered),
        "faults": faults,
        "several_conversations": {
            name: value if isinstance(value, str) else "scores" for name, value in histories.items()
        },
    }


async def _all_rulers(groups: Sequence[Any], url: str) -> list[list[float] | str]:
    return [await ruler_scores(group, url) for group in groups]


def _outcome(scores: list[float] | str, right: Sequence[float]) -> str:
    if isinstance(scores, str):
        return scores
    wrong = sum(abs(given - wanted) > 1e-9 for given, wanted in zip(scores, right, strict=True))
    return "right scores" if not wrong else f"wrong scores, {wrong} of {len(right)}, no error"


class ArtService:
    """What the client of ART's service asks, answered by a script."""

    def __init__(self, answers: Sequence[str]) -> None:
        self.answers = itertools.cycle(answers)
        """What the served model says, in turn."""
        self.step = 0
        self.jobs: list[dict[str, Any]] = []

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:  # noqa: PLR0911 - a row a route
        """Answer one request."""
        page = {"object": "list", "has_more": False}
        if path.endswith("/chat/completions"):
            logprobs = [
                {"token": f"token_id:{at}", "logprob": -0.5, "bytes": None, "top_logprobs": []} for at in (5, 6)
            ]
            return 200, completion(next(self.answers), logprobs={"content": logprobs, "refusal": None})
        if path.endswith("/preview/models") and method == "POST":
            named = {name: body[name] for name in ("project", "name", "base_model")}
            return 200, {"id": "model-1", "entity": "studio", "run_id": None} | named
        if "/checkpoints" in path:
            known = [{"id": f"c{self.step}", "step": self.step, "metrics": {}}] if self.step else []
            return 200, page | {"data": known}
        if path.endswith("/preview/training-jobs"):
            self.jobs.append(body)
            self.step += 1
            return 200, {"id": f"job-{self.step}"}
        if "/events" in path:
            started = {"id": "e1", "type": "training_started", "data": {"num_sequences": 1}}
            stepped = {"id": "e2", "type": "gradient_step", "data": {"loss": 0.5, "grad_norm": 1.0}}
            return 200, page | {"data": [started, stepped, {"id": "e3", "type": "training_ended", "data": {}}]}
        if path.endswith("/graphql"):
            # After a job the client looks for the model's artifact at W&B; there is none.
            viewer = {"id": "v", "entity": "studio", "username": "studio", "flags": "{}", "teams": {"edges": []}}
            return 200, {"data": {"viewer": viewer, "project": None}}
        return 404, {"error": {"message": f"nothing at {method} {path}"}}


def run_program(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> str:
    """Run a program to its end; give all that it printed, or stop with it."""
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=280, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout + done.stderr


def check_backend(folder: Path, answers: Sequence[str]) -> dict[str, Any]:
    """Run `train grpo --backend art` as a user does, with the service's address set to a local endpoint."""
    service = ArtService(answers)
    with serving(service.answer) as endpoint:
        environment = os.environ | {
            "ART_BASE_URL": f"{endpoint.url}/v1",
            "WANDB_BASE_URL": endpoint.url,
            "WANDB_API_KEY": "0" * 40,
            "WANDB_MODE": "offline",
            "WANDB_SILENT": "true",
            "PLAYPROOF_HOME": str(folder / "home"),
        }
        settings = ["--iterations", "2", "--windows-per-iteration", "3", "--decisions", "2", "--max-tokens", "8"]
        words = ["train", "grpo", "--name", "by-art", "--backend", "art", "--base", "some/model", "--world", "clear"]
        more = ["--set", "prompt=brief", "--set", 'options={"others":[]}']
        run_program([sys.executable, "-m", "playproof", *words, *settings, *more], environment, folder)
    groups = [group for job in service.jobs for group in job["trajectory_groups"]]
    first = groups[0]["trajectories"][0]
    choices = [turn for turn in first["messages_and_choices"] if "finish_reason" in turn]
    paths: dict[str, int] = {}
    for method, path, _ in endpoint.requests:
        name = f"{method} {re.sub(r'/(model|job)-[0-9]+', '/ID', path.partition('?')[0])}"
        paths[name] = paths.get(name, 0) + 1
    return {
        "requests": paths,
        "jobs": len(service.jobs),
        "groups": len(groups),
        "trajectories": sum(len(group["trajectories"]) for group in groups),
        "choices_of_the_first": len(choices),
        "rewards_of_the_first_group": [item["reward"] for item in groups[0]["trajectories"]],
        "learning_rate": service.jobs[0]["experimental_config"]["learning_rate"],
    }


def wandb_backend(_: str, path: str, __: dict[str, Any]) -> tuple[int, Any]:
    """Answer what `wandb sync` asks: a run may be made, and takes what is sent."""
    project = {"id": "p1", "name": "tracked", "entity": {"id": "e1", "name": "studio"}}
    bucket = {"id": "b1", "name": "tracked", "displayName": "tracked", "config": "{}", "project": project}
    bucket |= {"description": None, "sweepName": None, "historyLineCount": 0}
    viewer = {"id": "v", "entity": "studio", "username": "studio", "flags": "{}", "teams": {"edges": []}}
    data = {
        "viewer": viewer,
        "serverInfo": {"features": []},
        "upsertBucket": {"bucket": bucket, "inserted": True},
        "createRunFiles": {"runID": "b1", "uploadHeaders": [], "files": []},
    }
    return 200, {"data": data} if path.endswith("/graphql") else {}


def check_wandb(folder: Path) -> dict[str, Any]:
    """Train with `--track wandb` offline, then let `wandb sync` send the run to a local endpoint, value by value."""
    environment = os.environ | {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "PLAYPROOF_HOME": str(folder / "home")}
    words = ["train", "sft", "--name", "tracked", "--base", "tiny", "--world", "clear", "--player", "headline"]
    settings = ["--windows", "8", "--decisions", "1", "--holdout", "0", "--epochs", "2", "--batch", "4"]
    more = ["--set", "prompt=brief", "--set", 'options={"others":[]}', "--set", "rank=null", "--track", "wandb"]
    run_program([sys.executable, "-m", "playproof", *words, *settings, *more], environment, folder)
    run = folder / "home" / "runs" / "tracked"
    (kept,) = run.glob("wandb/offline-run-*")
    logged = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in logged if line["kind"] == "sft"]
    with serving(wandb_backend) as endpoint:
        there = {"WANDB_BASE_URL": endpoint.url, "WANDB_API_KEY": "0" * 40}
        command = [str(Path(sys.executable).parent / "wandb"), "sync", str(kept)]
        printed = run_program(command, os.environ | there, folder)
    history: list[dict[str, Any]] = []
    for _, path, body in endpoint.requests:
        if path.endswith("/file_stream"):
            lines = body.get("files", {}).get("wandb-history.jsonl", {}).get("content", [])
            history += map(json.loads, lines)
    names = sorted({name for line in history for name in line if not name.startswith("_")})
    sent = [line[name] for line in history for name in line if name.endswith("loss")]
    return {
        "folder": kept.name.partition("-2")[0],
        "sync_finished": "Finished syncing" in printed,
        "steps": len(losses),
        "metrics": names,
        "losses_equal": sent == losses,
    }


def to_page(result: Mapping[str, Any]) -> str:
    """Write the page of the results."""
    classes, ruler, backend, wandb = (result[name] for name in ("classes", "ruler", "backend", "wandb"))
    faults = "\n".join(f"| {fault} | {row['ruler']} | {row['ours']} |" for fault, row in ruler["faults"].items())
    requests = "\n".join(f"| `{name}` | {count} |" for name, count in backend["requests"].items())
    several = ruler["several_conversations"]
    return f"""# OpenPipe ART and Weights & Biases

`make art` makes a virtual environment of its own, `.venv-art`, with openpipe-art
{result["versions"]["openpipe-art"]} and
wandb {result["versions"]["wandb"]}, and runs `scripts/art_check.py` there, which writes this page. Every endpoint is a
scripted server on the same machine; neither service has been asked. {result["date"]}, commit {result["commit"][:7]}.

## ART's classes
{classes["groups"]} groups of {classes["trajectories"]} trajectories, as `train grpo --backend art`
writes them, were read
by ART's `Trajectory` and `TrajectoryGroup` and written again: {classes["equal"]} of
{classes["groups"]} are equal value by
value. {classes["choices"]} of {classes["turns"]} sampled answers are Choices, which ART trains on.

## RULER beside our judge
Both judge the same {ruler["groups"]} groups of {MEMBERS} episodes at the same endpoint, a script
that scores an episode by
its text. With sound answers the largest difference of two scores is {ruler["largest_difference"]:.2g}, and
{ruler["pairs_ordered_alike"]} of {ruler["pairs"]} pairs of unequal scores are ordered alike. RULER
asks once a group; our
judge asks once for each of two orders, with an episode mixed in that answers nothing.

With a fault in the judge's answer:

| the answer has | RULER | our judge |
|---|---|---|
{faults}

RULER assigns scores by their position and does not look at the ids. Our judge assigns them by id and refuses an answer
as a whole. An episode of several conversations: RULER {several["ruler"]} ("Additional histories
are not supported"), our
judge {several["ours"]}.

## `--backend art`
`train grpo --backend art` with `ART_BASE_URL` set to the local endpoint ran two iterations through ART's own client:

| request | times |
|---|---|
{requests}

{backend["jobs"]} training jobs with {backend["groups"]} groups of {backend["trajectories"]} trajectories arrived, with
rewards, log-probabilities and the learning rate {backend["learning_rate"]:g}. Until this check
the command called `TrainableModel.train`, which this version of ART does not have.

## `--track wandb`
Offline (`WANDB_MODE=offline`), `train sft --track wandb` writes `wandb/{wandb["folder"]}-...` in the run's folder.
`wandb sync` then sent that folder to the local endpoint {"to its end" if wandb["sync_finished"] else "IN PART"}. The
{wandb["steps"]} losses that arrived are {"equal to" if wandb["losses_equal"] else "NOT equal to"}
those of the run's own log.
"""


def main() -> None:
    """Run the checks; print the result or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--page", type=Path, help="write the page of results here")
    asked = parser.parse_args()
    from playproof.provenance import commit

    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(sys.stderr):
        os.environ["PLAYPROOF_HOME"] = f"{folder}/home"
        # All play comes before ART is imported: it replaces a function of transformers by one of an older signature.
        once, thrice = scored_groups(1), scored_groups(3, 6)
        said = sorted(
            {answer for _, _, group in once for contender in group.contenders for answer in contender.answers}
        )
        result = {
            "date": date.today().isoformat(),  # noqa: DTZ011
            "commit": commit(),
            "versions": {name: version(name) for name in ("openpipe-art", "wandb")},
            "classes": check_classes([*once, *thrice]),
            "ruler": check_ruler(once, thrice[0][1]),
            "backend": check_backend(Path(folder), said),
            "wandb": check_wandb(Path(folder)),
        }
    if asked.page:
        asked.page.write_text(to_page(result), encoding="utf-8")
    if asked.json or not asked.page:
        sys.stdout.write(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
