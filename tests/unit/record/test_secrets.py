"""Secrets that somebody planted are taken out wherever they stand; hashes, seeds, ids and prose stay."""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playproof.games.crash.recording.sample import sample
from playproof.record.redaction import REDACTED, Redaction
from playproof.record.secret_rules import is_secret_name, without_secrets
from playproof.record.trajectories.proxy import _from_events
from playproof.record.trajectories.secrets import SecretScrubber

KEY = b"k" * 32
PLANTED = 5_000
ALNUM = string.ascii_letters + string.digits
_MNEMONIC_WORDS = """
abandon ability absorb account acid across actor adjust advice airport alarm album alert alien amazing anchor ancient
animal antenna apple arctic armor artist athlete average awkward balance bamboo banner barrel basket beauty bitter
blade blossom board bonus border bounce bracket brave breeze bronze bubble buddy buffalo cabin cactus camera canal
canvas captain carbon cargo castle casual catalog caution cement census cereal chaos cherry chronic cinnamon circle
citizen
"""
WORDS = _MNEMONIC_WORDS.split()


def made(draw: random.Random, letters: str, size: int) -> str:
    return "".join(draw.choice(letters) for _ in range(size))


SHAPES: dict[str, Callable[[random.Random], str]] = {
    "openai": lambda draw: "sk-" + made(draw, ALNUM, 40),
    "groq": lambda draw: "gsk_" + made(draw, ALNUM, 52),
    "xai": lambda draw: "xai-" + made(draw, ALNUM, 80),
    "gitlab": lambda draw: "glpat-" + made(draw, ALNUM + "_-", 20),
    "github": lambda draw: "ghp_" + made(draw, ALNUM, 36),
    "github fine-grained": lambda draw: "github_pat_" + made(draw, ALNUM, 22) + "_" + made(draw, ALNUM, 59),
    "huggingface": lambda draw: "hf_" + made(draw, string.ascii_letters, 34),
    "aws id": lambda draw: "AKIA" + made(draw, string.ascii_uppercase + string.digits, 16),
    "aws secret": lambda draw: made(draw, ALNUM + "/+", 38) + "a1",
    "stripe": lambda draw: "sk_live_" + made(draw, ALNUM, 24),
    "jwt": lambda draw: f"eyJhbGciOiJIUzI1NiJ9.{made(draw, ALNUM, 40)}.{made(draw, ALNUM, 43)}",
    "mnemonic": lambda draw: " ".join(draw.sample(WORDS, draw.choice((12, 15, 18, 21, 24)))),
    "ethereum": lambda draw: "private key: 0x" + made(draw, "0123456789abcdef", 64),
}
_SECRET_NAMES = """
token accessToken access-token ACCESS_TOKEN X-Auth-Token bearer userToken privkey walletPrivateKey apiSecret
credentials connect.sid sessionId refresh_token authorization Cookie password clientSecret x-api-key privateKey
mnemonic seedPhrase AWS_SECRET_ACCESS_KEY xsrf-token jwt Sid ToKeN
"""
NAMES = _SECRET_NAMES.split()


def secret_shapes(draw: random.Random) -> tuple[str, str]:
    kind = draw.choice(list(SHAPES))
    secret = SHAPES[kind](draw)
    if kind != "ethereum" and draw.random() < 0.3:
        secret = base64.b64encode(secret.encode()).decode()
    return secret, secret.rpartition("0x")[2] if kind == "ethereum" else secret


def plant(draw: random.Random) -> tuple[Any, str]:
    """Give the payload of a frame with a secret in it, and the secret."""
    if draw.random() < 0.4:
        written, secret = secret_shapes(draw)
        before, after = draw.choice((("", ""), ("he wrote ", " there"), ("see: ", ""), ("(", ")")))
        value: Any = {"message": f"{before}{written}{after}", "price": 1.5}
    else:
        name, secret = draw.choice(NAMES), made(draw, ALNUM, draw.randint(12, 40)) + "7x"
        value = draw.choice(
            (
                {name: secret, "price": 1.5},
                {name: {"value": [secret, 1]}},
                {name: [secret]},
                {"data": json.dumps({name: secret, "a": 1})},
                {"data": json.dumps({"inner": json.dumps({name: {"k": secret}})})},
                {"url": f"https://x.example/a?b=1&{name}={secret}&c=2"},
                {"line": f"{name}={secret}"},
                {"line": f"first line\n{name}={secret}\nlast"},
                {"line": f"{name}: {secret}"},
                {"line": f"config = {{'{name}': '{secret}'}}"},
                {"headers": [[name, secret], ["accept", "x"]]},
                {"headers": ["accept", "x", name, secret]},
                {"headers": [{"name": name, "value": secret}, {"name": "accept", "value": "x"}]},
                {"headers": [{"value": secret, "enabled": True, "key": name}]},
            )
        )
    for _ in range(draw.randint(0, 2)):
        value = draw.choice(({"inner": value, "n": 1}, [1, value, "x"], {"list": [value]}))
    return value, secret


def test_no_planted_secret_is_kept() -> None:
    draw = random.Random(19)
    redaction, prose = Redaction(KEY), SecretScrubber()
    kept: list[str] = []
    for number in range(PLANTED):
        value, secret = plant(draw)
        compact = number % 2
        data = json.dumps(value, separators=(",", ":") if compact else None, ensure_ascii=bool(number % 3))
        text, message = redaction.clean(f'42["news",{data}]'), redaction.clean_message("news", data)[0]
        trajectory, words = str(prose.json(value)), prose.text(data)
        for path, clean in (("text", text), ("json", message), ("trajectory", trajectory), ("prose", words)):
            if secret in clean or secret in clean.replace("\\/", "/"):
                kept.append(f"{path}: {data}")
            elif path != "prose":
                json.loads(clean.removeprefix("42"))
    assert not kept, (len(kept), kept[:5])


@pytest.mark.parametrize("event", ["auth", "authenticate", "login", "user/login", "signIn", "player:auth"])
def test_arguments_of_events_that_log_in_go(event: str) -> None:
    for arguments in ('"s3cret"', '"bob","s3cret"', '{"a":["s3cret"]}', "12345"):
        for head in ("42", "42/trade,", "4217", "42/trade,17"):
            text = Redaction(KEY).clean(f'{head}["{event}",{arguments}]', "sent")
            assert text == f'{head}["{event}","{REDACTED}"]'
        assert Redaction(KEY).clean_message(event, arguments.partition(",")[0]) == (
            f'42["{event}","{REDACTED}"]',
            REDACTED,
        )


def test_names_of_secrets_in_any_spelling() -> None:
    assert all(is_secret_name(name) for name in NAMES)
    plain = """
    price serverSeed serverSeedHash clientSeed gameId tradeId hash txHash id tokens max_tokens prompt_tokens tokenId
    baseToken quoteToken inputToken pad_token key publicKey crateKeys author side sidebet inside session resident coin
    """
    assert not [name for name in plain.split() if is_secret_name(name)]


_KEYS = st.sampled_from(
    [
        "id",
        "username",
        "playerId",
        "token",
        "X-Auth-Token",
        "price",
        "name",
        "value",
        "key",
        "e",
        "no\u00eb",
        'q"',
        "auth",
    ]
)
_TEXTS = st.sampled_from(
    [
        "token",
        "Authorization",
        "x",
        "a=b",
        "token=abcdef123",
        '{"token":"s3"}',
        '{"username":"Bob","id":7}',
        "a\\b",
        "é",
        "sk-" + "a" * 20,
        "[1,2",
        "{",
        'say "token":"x"',
        "line\nsecret=12345678",
        "",
        "0x" + "ab" * 32,
    ]
)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False, width=16)
    | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=400)
@given(_JSON, st.booleans(), st.booleans())
def test_both_paths_agree(value: Any, compact: bool, ascii_only: bool) -> None:
    data = json.dumps(value, separators=(",", ":") if compact else None, ensure_ascii=ascii_only)
    text = json.loads(Redaction(KEY).clean(f'42["news",{data}]')[2:])
    frame, payload = Redaction(KEY).clean_message("news", data)
    assert json.loads(frame[2:]) == ["news", payload]
    assert text == ["news", payload]


def test_recorded_frames_keep_everything_but_names_and_session_ids() -> None:
    redaction = Redaction(KEY, keep_names=True)
    changed = [frame.payload for frame in sample() if redaction.clean(str(frame.payload)) != frame.payload]
    assert [text for text in changed if '"sid"' not in str(text)] == []
    for text in (
        '{"serverSeed":"' + "0f" * 32 + '","hash":"' + "a1" * 32 + '","gameId":"20250115-7e63abc455be39a8"}',
        '{"tx":"0x' + "ab" * 32 + '","to":"0x' + "12" * 20 + '","trade":"4b3f9c52-77aa-4d11-9c0e-5a6b7c8d9e0f"}',
        '{"mint":"7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU","baseToken":"SOL","prompt_tokens":12}',
        "Token: BONK, price 0.0001; the key: patience. Author: Ann. session: 7",
        '{"requiresAuth":true,"token":null}',
    ):
        assert redaction.clean(text) == text
        assert SecretScrubber().text(text) == text


def test_prose_is_not_taken_for_secrets() -> None:
    """Measure false positives on the documents of this repository: paragraphs that would be changed."""
    folder = Path(__file__).parents[3] / "docs"
    texts = [part for path in sorted(folder.rglob("*.md")) for part in path.read_text(encoding="utf-8").split("\n\n")]
    changed = [text for text in texts if without_secrets(text, prose=True) != text]
    assert len(texts) > 500
    assert len(changed) / len(texts) < 0.01, (len(changed), len(texts), changed[:10])


def test_pieces_of_tool_calls_are_joined_before_redaction() -> None:
    arguments = json.dumps({"api_key": "gsk_" + "Ab1" * 18, "coin": "SOL"})
    calls = [{"index": 0, "id": "c1", "type": "function", "function": {"name": "buy", "arguments": ""}}]
    calls += [{"index": 0, "function": {"arguments": letter}} for letter in arguments]  # type: ignore[misc]
    calls.insert(3, {"index": 1, "id": "c2", "type": "function", "function": {"name": "wait", "arguments": "{}"}})
    stream = "".join(
        f"data: {json.dumps({'id': 'x', 'choices': [{'index': 0, 'delta': {'tool_calls': [call]}}]})}\n\n"
        for call in calls
    )
    payload = _from_events(stream.encode())
    assert payload is not None
    joined = payload["choices"][0]["message"]["tool_calls"]
    assert [call["function"] for call in joined] == [
        {"name": "buy", "arguments": arguments},
        {"name": "wait", "arguments": "{}"},
    ]
    assert "gsk_" not in str(SecretScrubber().json(joined))


def test_the_rules_of_a_maintained_scanner_are_covered() -> None:
    """Every sample that fits a rule of detect-secrets is redacted."""
    plugins = pytest.importorskip("detect_secrets.plugins")
    assert plugins
    from detect_secrets.plugins import aws, github_token, gitlab_token, npm, openai, sendgrid, stripe

    rules = [
        rule
        for detector in (
            aws.AWSKeyDetector,
            github_token.GitHubTokenDetector,
            gitlab_token.GitLabTokenDetector,
            openai.OpenAIDetector,
            sendgrid.SendGridDetector,
            stripe.StripeDetector,
        )
        for rule in list(detector.denylist)[: 1 if detector is aws.AWSKeyDetector else None]
    ]
    assert npm
    assert len(rules) >= 12

    @settings(max_examples=15)
    @given(st.data())
    def covered(data: st.DataObject) -> None:
        for rule in rules:
            secret = data.draw(st.from_regex(re.compile(rule.pattern, re.ASCII), fullmatch=True))
            text = f"the key {secret} here"
            assert secret not in without_secrets(text, prose=True), rule.pattern

    covered()
