"""Let OpenPipe ART's own classes read our JSON, and write down what they made of it.

    python -m venv /tmp/art && /tmp/art/bin/pip install openai pydantic
    /tmp/art/bin/pip download --no-deps -d /tmp/art openpipe-art==0.5.18
    .venv/bin/python scripts/art_golden.py given > /tmp/art/given.json
    /tmp/art/bin/python scripts/art_golden.py read /tmp/art/openpipe_art-0.5.18-py3-none-any.whl \
        /tmp/art/given.json > tests/data/art_group.json

Only the two modules that define the classes are taken from the wheel: the package itself imports its trainers.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any


def given() -> Any:
    """Give the sample group of the tests."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    test = importlib.import_module("test_art")
    return test.to_art_group(test.sample_group())


def revived(trajectory: dict[str, Any], choice: Any) -> dict[str, Any]:
    """Make Choices of what is written as such: ART's messages skip validation and would stay plain objects."""

    def each(messages: list[Any]) -> list[Any]:
        return [choice.model_validate(message) if "message" in message else message for message in messages]

    histories = [
        history | {"messages_and_choices": each(history["messages_and_choices"])}
        for history in trajectory["additional_histories"]
    ]
    first = each(trajectory["messages_and_choices"])
    return trajectory | {"messages_and_choices": first, "additional_histories": histories}


def read(wheel: str, path: str) -> dict[str, Any]:
    """Read a group with ART's classes and write it again."""
    package = types.ModuleType("art")
    package.__path__ = [f"{wheel}/art"]
    sys.modules["art"] = package
    sys.path.insert(0, wheel)
    art = importlib.import_module("art.trajectories")
    payload = json.loads(Path(path).read_text())
    payloads = [art.Trajectory.model_validate(revived(item, art.Choice)) for item in payload["trajectories"]]
    group = art.TrajectoryGroup(payloads)
    choices = [
        sum(
            isinstance(messages_and_choice, art.Choice)
            for history in (trajectory, *trajectory.additional_histories)
            for messages_and_choice in history.messages_and_choices
        )
        for trajectory in group.trajectories
    ]
    return {"given": payload, "read": json.loads(group.model_dump_json()), "choices": choices}


if __name__ == "__main__":
    result = given() if sys.argv[1] == "given" else read(*sys.argv[2:])
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
