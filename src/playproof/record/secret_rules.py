"""Tell what is a secret: by the name of a key, by the shape of a value, and by a name that stands before a value.

`is_secret_name` reads names of keys in any spelling. `without_secrets` takes secrets out of a text, whether prose, JSON
or JSON within JSON: keys of providers by their prefixes, signed tokens, private keys, mnemonics, any of them in base64,
and values behind a secret name as in `api_key=...`. Hashes, seeds, addresses and ids of rounds stay.
Leaves out: the structure of JSON and names of people (redaction).
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

REDACTED = "[redacted]"

_SECRET_ENDINGS = (
    "token",
    "jwt",
    "auth",
    "authorization",
    "cookie",
    "cookies",
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "passcode",
    "passkey",
    "pwd",
    "secret",
    "secrets",
    "mnemonic",
    "mnemonics",
    "csrf",
    "xsrf",
    "bearer",
    "credential",
    "credentials",
    "apikey",
    "apikeys",
    "privatekey",
    "privatekeys",
    "privkey",
    "secretkey",
    "accesskey",
    "authkey",
    "sessionkey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "walletkey",
    "seedphrase",
    "recoveryphrase",
    "backupphrase",
    "secretphrase",
    "sessionid",
    "phpsessid",
    "jsessionid",
    "authdata",
    "authheader",
)
"""How names of secrets end, in small letters and without separators."""
_SECRET_LAST_WORDS = frozenset(("sid", "otp", "totp"))
"""Names of secrets that other words end with as well."""
_TRADED_WORDS = """
base quote input output from to in out target source reward stake staked pool lp coin native wrapped bonus fee gas
payment traded bought sold buy sell asset meme pad eos bos unk mask sep cls stop start end special max min image
"""
_TRADED_TOKENS = frozenset(_TRADED_WORDS.split())
"""What stands before "token" where a coin or a model's token is meant."""
_SEPARATORS = re.compile(r"[-_.\s:]+")
_LAST_WORD = re.compile(r"(?:[A-Z]+|[A-Z]?[a-z]+)[^A-Za-z]*\Z")
_WORDS = (
    *("token", "jwt", "auth", "cookie", "passw", "phrase", "passcode", "passkey", "pwd", "secret", "mnemonic"),
    *("csrf", "xsrf", "bearer", "credential", "key", "session_id", "sessionid", "session-id", "sessid", "otp"),
    *('sid"', "sid'", "sid\\", "sid=", "sid:", "sid "),
)
"""What every text with the name of a secret holds, in small letters."""
SECRET_WORD = rf"(?i){'|'.join(map(re.escape, _WORDS))}"

BASE_58 = "[1-9A-HJ-NP-Za-km-z]{87,88}"
"""A private key in base 58."""
_SHAPES: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = (
    (("sk-",), re.compile(r"\b(?:c|g|p)?sk-[A-Za-z0-9_-]{16,}")),
    (("gsk_",), re.compile(r"\bgsk_[A-Za-z0-9]{20,}")),
    (("xai-",), re.compile(r"\bxai-[A-Za-z0-9]{20,}")),
    (("pplx-", "tvly-"), re.compile(r"\b(?:pplx|tvly)-[A-Za-z0-9-]{20,}")),
    (("hf_", "r8_"), re.compile(r"\b(?:hf|r8)_[A-Za-z0-9]{24,}")),
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), re.compile(r"\bgh[pousr]_[A-Za-z0-9_]{30,}")),
    (("_pat_",), re.compile(r"\b(?:github|dckr)_pat_[A-Za-z0-9_-]{20,}")),
    (("gl", "GR1348941"), re.compile(r"\b(?:gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-|GR1348941)[\w-]{20,}")),
    (("xox", "xapp-"), re.compile(r"\bx(?:ox[abeoprs]|app)-(?:\d-)?[A-Za-z0-9-]{10,}")),
    (("hooks.slack.com",), re.compile(r"hooks\.slack\.com/services/[A-Za-z0-9/_]{20,}")),
    (("AKIA", "ASIA", "ABIA", "ACCA", "A3T"), re.compile(r"\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b")),
    (("AIza",), re.compile(r"\bAIza[A-Za-z0-9_-]{30,}")),
    (("ya29.",), re.compile(r"\bya29\.[A-Za-z0-9_-]{20,}")),
    (("_live_", "_test_"), re.compile(r"\b[rsp]k_(?:live|test)_[A-Za-z0-9]{16,}")),
    (("SG.",), re.compile(r"\bSG\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}")),
    (("npm_",), re.compile(r"\bnpm_[A-Za-z0-9]{30,}")),
    (("pypi-",), re.compile(r"\bpypi-[A-Za-z0-9_-]{50,}")),
    (("sq0",), re.compile(r"\bsq0(?:atp|csp|idp)-[A-Za-z0-9_-]{20,}")),
    (("shp",), re.compile(r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}")),
    (("-us",), re.compile(r"\b[0-9a-z]{32}-us[0-9]{1,2}\b")),
    (("AccountKey=",), re.compile(r"AccountKey=[A-Za-z0-9+/=]{80,}")),
    ((":AA",), re.compile(r"\b\d{8,10}:AA[A-Za-z0-9_-]{32,}")),
    (("xprv", "zprv", "yprv"), re.compile(r"\b[xyz]prv[1-9A-HJ-NP-Za-km-z]{100,}")),
    (("AGE-SECRET-KEY-",), re.compile(r"AGE-SECRET-KEY-1[A-Z0-9]{50,}")),
    (("PRIVATE KEY",), re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^\"]*")),
    (("eyJ",), re.compile(r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}")),
    (("earer ",), re.compile(r"[Bb]earer +[A-Za-z0-9._~+/=-]{8,}")),
    (("://",), re.compile(r"(?<=://)[^\s\"'\\/@:]{1,100}:[^\s\"'\\/@]{1,200}(?=@)")),
)
"""What secrets of providers hold, and how they look."""
SECRET_SIGNS = tuple(sign for signs, _ in _SHAPES for sign in signs if sign not in ("gl", "://", "-us", "sq0", "shp"))
_GITLAB_PREFIXES = """
glpat gldt glft glsoat glrt glcbt glimt glptt glagent gloas
"""
SECRET_SIGNS += tuple(f"{sign}-" for sign in _GITLAB_PREFIXES.split())
SECRET_SIGNS += ("sq0atp-", "sq0csp-", "sq0idp-", "shpat_", "shpca_", "shppa_", "shpss_")
"""What nearly every text with such a secret holds."""
RARE_SIGNS = r"://[^\s\"'\\/@:]+:[^\s\"'\\/@]+@|[0-9a-z]{32}-us[0-9]"
"""What the others hold, as a pattern."""
_QUOTED_BASE_58 = re.compile(rf'"{BASE_58}"')
_BARE_BASE_58 = re.compile(rf"(?<![0-9A-Za-z]){BASE_58}(?![0-9A-Za-z])")
_SIGNED_SHAPES = tuple((sign, pattern) for signs, pattern in _SHAPES for sign in signs)

RUN = r"[A-Za-z0-9+/_-]{24,}"
"""What a key without a prefix, or one in base64, is part of."""
_RUN = re.compile(rf"(?<![A-Za-z0-9+/_-]){RUN}+={{0,2}}")
_HEX = re.compile(r"(?:0x)?(?:[0-9a-f]+|[0-9A-F]+)")
_AWS = re.compile(r"[A-Za-z0-9/+]{40}")
AWS_ENTROPY = 4.2
"""Bits a character from which on 40 mixed characters are a key; names and paths have less."""
MNEMONIC_WORDS = 12
WORD_ROW = r"(?:\b[a-z]{3,8} ){11}[a-z]{3,8}\b"
_WORD_ROW = re.compile(r"\b[a-z]{3,8}\b(?: [a-z]{3,8}\b){11,}+")
_COMMON_WORDS = """
the and with are was for not you have but from they his her this that has had were will would could should can been
their there when where which who whom into than then them these those its our your him she did does any all how why
what while because since per via yet nor too also was being over under if such some most more both few each other
every only just very much many may might must shall get got make made take buy sell hold price prices round rounds
"""
_PROSE_WORDS = frozenset(
    _COMMON_WORDS.split()
) - {"buy", "sell", "hold", "price", "round", "make", "get", "can", "then", "than", "this", "that", "when", "where",
     "over", "under", "such", "some", "more", "both", "few", "each", "other", "only", "just", "much", "must", "you",
     "have", "there", "will", "any", "all", "also", "because", "into", "what", "very", "take"}  # fmt: skip
"""Common words that no mnemonic holds."""
_PRIVATE_HEX = re.compile(
    r"(?i)(?P<lead>\bpriv(?:ate)?[\s_-]{0,2}key\b[^0-9A-Za-z\"]{0,12}(?:[a-z]{1,10}\W{1,4}){0,3})(?:0x)?[0-9a-f]{64}\b"
)

_NAMED = re.compile(
    r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z][A-Za-z0-9_.-]{1,63})"
    r"(?P<between>(?:\\+[\"']|')?[ \t]{0,3}(?:=>|[:=])[ \t]{0,3}(?P<quote>\\*[\"'`])?)"
)
"""A name before a value in a text; a name in plain double quotes is a key of JSON and not meant."""
_BARE_VALUE = re.compile(r"(?:(?:[Bb]earer|[Bb]asic|[Dd]igest|[Tt]oken)\s+)?(?:[^\s\"'\\,;&<>{}\[\]()`]|\\/)+")
_LINE_VALUE = re.compile(r"[^\"'\\\r\n]+")
_ANY_QUOTE = re.compile(r"(\\*)([\"'`])")
_WORD_BEFORE = re.compile(r"([A-Za-z]{2,12}) \Z")


@lru_cache(maxsize=10_000)
def is_secret_name(name: str) -> bool:
    """Tell whether a key's name says that its value is a secret, in any spelling."""
    small = _SEPARATORS.sub("", name).lower()
    if small.endswith(_SECRET_ENDINGS):
        return not (small.endswith("token") and small[:-5] in _TRADED_TOKENS)
    last = _LAST_WORD.search(name)
    return last is not None and last[0].strip("-_. :").lower() in _SECRET_LAST_WORDS


def names_a_secret(text: str) -> bool:
    """Tell whether a text may hold the name of a secret; it surely holds none otherwise."""
    small = text.lower()
    return any(word in small for word in _WORDS) or "\\u00" in small


def without_secrets(text: str, probe: str | None = None, *, prose: bool = False) -> str:
    """Give a text without secrets that have a shape or a name before them.

    `probe` is what is looked at first, such as the strings of JSON; without one the whole text is. `prose` says that
    keys in base 58 may stand anywhere, not only between quotes. JSON stays JSON.
    """
    if probe == "":
        return text
    probe = text if probe is None else probe
    for sign, pattern in _SIGNED_SHAPES:
        if sign in probe:
            text = pattern.sub(REDACTED, text)
    if _BARE_BASE_58.search(probe):
        text = _BARE_BASE_58.sub(REDACTED, text) if prose else _QUOTED_BASE_58.sub(f'"{REDACTED}"', text)
    if any(_without_run(match) is REDACTED for match in _RUN.finditer(probe)):
        text = _RUN.sub(_without_run, text)
    if probe.count(" ") >= MNEMONIC_WORDS - 1:
        text = _WORD_ROW.sub(_without_row, text)
    if ("=" in probe or ":" in probe or "\\" in probe or " " in probe) and names_a_secret(probe):
        text = _without_named(_PRIVATE_HEX.sub(rf"\g<lead>{REDACTED}", text))
    return text


def _without_run(match: re.Match[str]) -> str:
    """Replace a run of letters and digits if it is an AWS secret, or a secret in base64."""
    run = match[0]
    bare = run.rstrip("=")
    if _HEX.fullmatch(bare):
        return run
    if _AWS.fullmatch(run) and _is_mixed(run) and _entropy(run) > AWS_ENTROPY:
        return REDACTED
    try:
        decoded = base64.b64decode(bare.translate(_URL_SAFE) + "=" * (-len(bare) % 4), validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return run
    return REDACTED if without_secrets(decoded, prose=True) != decoded else run


_URL_SAFE = str.maketrans("-_", "+/")


def _is_mixed(text: str) -> bool:
    return any(map(str.islower, text)) and any(map(str.isupper, text)) and any(map(str.isdigit, text))


def _entropy(text: str) -> float:
    """Give bits a character."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def _without_row(match: re.Match[str]) -> str:
    """Replace a row of words if it is a mnemonic: at least twelve in a row that are no common words."""
    pieces: list[str] = []
    row: list[str] = []
    for word in (*match[0].split(" "), ""):
        if word and word not in _PROSE_WORDS:
            row.append(word)
            continue
        # A mnemonic hardly repeats words, a list of the same words does.
        pieces += [REDACTED] if len(row) >= MNEMONIC_WORDS and len(set(row)) >= len(row) - 3 else row
        pieces += [word] if word else []
        row = []
    return " ".join(pieces)


def _without_named(text: str) -> str:
    """Take out values behind names of secrets."""
    pieces, done = [], 0
    for start, end in _named_values(text):
        if start >= done:
            pieces += [text[done:start], REDACTED]
            done = end
    return "".join([*pieces, text[done:]])


def _named_values(text: str) -> Iterator[tuple[int, int]]:
    for match in _NAMED.finditer(text):
        name, start = match["name"], match.end()
        before = text[match.start() - 1 : match.start()]
        if before == "\\":  # the letter of an escape such as \n
            name = name[1:]
        if not is_secret_name(name):
            word = _WORD_BEFORE.search(text, max(0, match.start() - 13), match.start())
            if word is None or not is_secret_name(f"{word[1]}_{name}"):
                continue
        quote = match["quote"]
        if quote:
            end = _closing(text, start, quote)
        else:
            line = name.lower().endswith(("cookie", "cookies"))
            value = (_LINE_VALUE if line else _BARE_VALUE).match(text, start)
            end = start if value is None else value.end()
        value_text = text[start:end]
        exact = quote or match["between"].strip() == match["between"] == "="
        if end > start and REDACTED not in value_text and (exact or _looks_secret(value_text)):
            yield start, end


def _closing(text: str, start: int, quote: str) -> int:
    """Give where a quoted value ends: at the same quote with no more backslashes before it, or with the text."""
    for match in _ANY_QUOTE.finditer(text, start):
        if match[2] == quote[-1] and len(match[1]) < len(quote):
            return match.start()
        if match[2] == '"' and not match[1]:  # the string of JSON around it ends
            return match.start()
    return len(text)


def _looks_secret(value: str) -> bool:
    """Tell whether what follows a colon in prose is a secret and no word such as a coin's name."""
    if " " in value:
        return True
    has_digit = any(map(str.isdigit, value))
    return len(value) >= 6 and (
        has_digit or len(value) >= 16 or (value[1:] != value[1:].lower() and not value.isupper())
    )
