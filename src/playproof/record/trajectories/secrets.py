"""Keep keys and other secrets out of trajectories: prompts, states, answers and whatever else an agent records.

What redaction finds in frames it finds here too: the values of secret keys, signed tokens, API keys, private keys.
Beside that, the very values that this process holds in environment variables named like secrets.
Agents' own names stay: they are what is compared. Prompts are long and come in thousands, so texts are first sifted by
one fast search for what every secret has about it, and only those that hold some of it are read closely.
Leaves out: people's names inside prompts, which are prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from playproof.record.redaction import Redaction
from playproof.record.secret_rules import (
    BASE_58,
    RARE_SIGNS,
    REDACTED,
    RUN,
    SECRET_SIGNS,
    SECRET_WORD,
    WORD_ROW,
    names_a_secret,
)
from playproof.store.db.columns import JsonText, plain, write_json

SHORTEST = 8
"""Characters below which a value of the environment is too common to be searched for."""
_NAMED_SECRET = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSPHRASE|MNEMONIC|CREDENTIALS)$")
_SIGNS = (*SECRET_SIGNS, "\\u00")
_OTHER_SIGNS = rf"{RARE_SIGNS}|{RUN}|{WORD_ROW}|{BASE_58}"
_SUSPECT = re.compile(_OTHER_SIGNS)


def secret_values(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Give the values of variables that are named like secrets, longest first."""
    values = {
        value for name, value in environment.items() if len(value) >= SHORTEST and _NAMED_SECRET.search(name.upper())
    }
    return tuple(sorted(values, key=lambda value: (-len(value), value)))


class SecretScrubber:
    """Take secrets out of texts and JSON values."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = tuple(values)
        self._redaction = Redaction(b"", keep_names=True, prose=True)
        written = [write_json(value)[1:-1] for value in self._values]
        self._signs = tuple(sorted({*_SIGNS, *self._values, *written}))

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> SecretScrubber:
        """Make one that knows the secrets of an environment."""
        return cls(secret_values(environment))

    def suspects(self, texts: Sequence[str]) -> list[bool]:
        """Tell which texts, or written JSON values, may hold a secret; the others hold none."""
        signs = "|".join(map(re.escape, self._signs))
        result = pl.DataFrame({"text": pl.Series(texts, dtype=pl.String)}).lazy()
        holds = [pl.col("text").str.contains(item) for item in (signs, SECRET_WORD, _OTHER_SIGNS)]
        return result.select(pl.any_horizontal(holds)).collect().to_series().to_list()

    def suspect(self, text: str) -> bool:
        """Tell whether one text may hold a secret."""
        if any(sign in text for sign in self._signs):
            return True
        return names_a_secret(text) or _SUSPECT.search(text) is not None

    def text(self, text: str) -> str:
        """Give a text without secrets."""
        return self.read_closely(text) if self.suspect(text) else text

    def json(self, value: Any) -> JsonText | None:
        """Write a JSON value without secrets, ready for a column; None stays None, what JSON cannot say is refused."""
        if value is None:
            return None
        written = write_json(value)
        return JsonText(self.rewrite(value) if self.suspect(written) else written)

    def rewrite(self, value: Any) -> JsonText:
        """Write a JSON value after reading every key and text of it closely."""
        copied = plain(value)
        self._redaction.clean_value(copied)
        return JsonText(write_json(self._without(copied)))

    def read_closely(self, text: str) -> str:
        """Give a text without secrets, whether or not it is suspect."""
        for value in self._values:
            text = text.replace(value, REDACTED)
        return self._redaction.clean(text)

    def _without(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.read_closely(value)
        if isinstance(value, dict):
            return {self.read_closely(key): self._without(item) for key, item in value.items()}
        return [self._without(item) for item in value] if isinstance(value, list) else value
