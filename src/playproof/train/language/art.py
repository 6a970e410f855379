"""GRPO by OpenPipe ART's service on Weights & Biases: the windows are played here, the weights live and learn there.

The same forked windows, rewards and groups as on this machine; answers come from the service's OpenAI-compatible
address, and groups go to it in ART's own format. `scripts/art_check.py` runs all of it with the real client against a
local endpoint that keeps every request (`make art`); the service itself has not been asked.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any

from playproof.datasets.conversations.art import PolicyView, to_art_group, validate_compatibility
from playproof.datasets.conversations.groups import ChatExchange, conversation_of
from playproof.errors import ConfigError, InputError, MissingExtra
from playproof.game import Game
from playproof.game.forks import Forks
from playproof.json_types import Json
from playproof.judge.computed import computed
from playproof.train.language.config import GRPOConfig
from playproof.train.language.grpo import ForkPlan, ScoredGroup, advantages, score
from playproof.train.language.rollout import Answering, play

KEY = "WANDB_API_KEY"
URL = "ART_BASE_URL"
"""Names another address than the service's own."""


def train_by_art(game: Game, config: GRPOConfig, name: str, environment: Mapping[str, str] = os.environ) -> None:
    """Train a model on the service, iteration by iteration."""
    art = client(environment)
    asyncio.run(_train(art, game, config, name, environment.get(URL) or None))


def client(environment: Mapping[str, str]) -> Any:
    """Give ART's package, if it and a key are there."""
    try:
        import art
    except ModuleNotFoundError:
        raise MissingExtra("openpipe-art, the client of --backend art,", "art") from None
    if not environment.get(KEY):
        raise ConfigError(f"expected a key of Weights & Biases in {KEY} for --backend art, found none")
    return art


def art_groups(scored: Sequence[ScoredGroup]) -> list[Json]:
    """Give groups that teach in ART's format; those that cannot be trained on are refused with what is wrong."""
    results = []
    for item in scored:
        if advantages([1e4 * value for value in item.rewards]) is None:
            continue
        views = [
            PolicyView(
                tuple(conversation_of(exchange) for exchange in episode.exchanges),
                {"trajectory_id": episode.episode_id, "scenario_id": item.group.window},
                {"pnl": episode.pnl or 0, "valid": episode.valid},
                reward,
            )
            for episode, reward in zip(item.group.episodes, item.rewards, strict=True)
        ]
        payload = validate_compatibility(views)
        if not payload.compatible:
            raise InputError(
                f"expected a group that ART can train on, found in {item.group.window}: {payload.errors[0]}"
            )
        results.append(to_art_group(views, {"window": item.group.window}))
    return results


def to_trajectory_group(art: Any, payload: Json) -> Any:
    """Read a group of our format with ART's own classes.

    ART's messages skip validation, so an answer with tokens would stay a plain object, and not be trained on: each is
    made a Choice first.
    """
    choice = art.trajectories.Choice

    def revive(messages: Sequence[Json]) -> list[Any]:
        return [choice.model_validate(message) if "message" in message else message for message in messages]

    trajectories = []
    for item in payload["trajectories"]:
        histories = [
            history | {"messages_and_choices": revive(history["messages_and_choices"])}
            for history in item["additional_histories"]
        ]
        first = revive(item["messages_and_choices"])
        revived = item | {"messages_and_choices": first, "additional_histories": histories}
        trajectories.append(art.Trajectory.model_validate(revived))
    return art.TrajectoryGroup(trajectories, metadata=payload["metadata"])


async def _train(art: Any, game: Game, config: GRPOConfig, name: str, url: str | None) -> None:
    """Play, score and hand groups to the service."""
    model = art.TrainableModel(name=name, project=game.name, base_model=config.base)
    backend = art.ServerlessBackend(base_url=url)
    try:
        await model.register(backend)
        plan = ForkPlan(config.terms, 0, config.iterations, config.windows, config.holdout, config.embargo)
        done = await model.get_step()
        loop = asyncio.get_running_loop()
        for iteration in range(done + 1, config.iterations + 1):
            version = f"{name}@{iteration - 1}"
            player = service_player(model.openai_client(), model.get_inference_name(), config.max_tokens, loop)
            played = await asyncio.to_thread(
                play, game, config.terms, plan.numbers(iteration), config.forks, player, version
            )
            groups = art_groups([score(item.group, item.outcomes, computed) for item in played])
            if not groups:
                raise InputError(
                    f"expected windows whose copies earned different rewards in iteration {iteration}, found none of "
                    f"{len(played)}; the model's answers may be no decisions: teach it first (train sft), or use more "
                    "windows or forks"
                )
            made = [to_trajectory_group(art, group) for group in groups]
            await backend.train(model, made, learning_rate=config.learning_rate)
    finally:
        await backend.close()


def service_player(openai: Any, model: str, limit: int, loop: asyncio.AbstractEventLoop) -> Answering:
    """Answer by a model behind an OpenAI-compatible address, all copies at once.

    The client belongs to the loop that it was made in; the windows are played in a thread beside it.
    """

    async def one(messages: tuple[tuple[str, str], ...]) -> ChatExchange:
        payload = [{"role": role, "content": content} for role, content in messages]
        answer = await openai.chat.completions.create(
            model=model, messages=payload, max_tokens=limit, temperature=1.0, logprobs=True
        )
        content = (answer.choices[0].logprobs.content or []) if answer.choices[0].logprobs else []
        ids = tuple(int(item.token.removeprefix("token_id:")) for item in content if item.token.startswith("token_id:"))
        logprobs = tuple(item.logprob for item in content) if len(ids) == len(content) else ()
        return ChatExchange(messages, answer.choices[0].message.content or "", (), ids if logprobs else (), logprobs)

    async def every(chats: Sequence[tuple[tuple[str, str], ...]]) -> list[ChatExchange]:
        return list(await asyncio.gather(*map(one, chats)))

    def answers(tables: Sequence[Forks]) -> list[list[ChatExchange]]:
        chats = [[tuple((item.role, item.content) for item in chat) for chat in table.prompts()] for table in tables]
        flat = [chat for of in chats for chat in of]
        payload = iter(asyncio.run_coroutine_threadsafe(every(flat), loop).result())
        return [[next(payload) for _ in of] for of in chats]

    return answers
