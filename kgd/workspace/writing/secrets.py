"""The search for secrets in content before it is stored in git, which never forgets.

There are three rules: the form of a known service's token, a form with a keyword (a private key, a password in a URL),
and a random value assigned to a name such as ``api_key``. A refusal names the field, never the value. Keywords are
found by plain search and the length of forms is bounded, so the search takes linear time.

The forms of credentials follow the rules of gitleaks (https://github.com/gitleaks/gitleaks), Copyright (c) 2019 Zachary
Rice, MIT licence, whose text is in docs/decisions/0032-secrets.md with the reasons for every difference. Patterns match
bytes.
"""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kgd.errors import Refused
from kgd.model.fields import plain
from kgd.model.node import Json, Node

TOKENS = {
    "1Password": r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}\b|ops_eyJ[\w+/]{250}",
    "Adobe": r"p8e-[a-zA-Z0-9]{32}\b",
    "age": r"(?i:AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58})",
    "Airtable": r"pat[a-zA-Z0-9]{14}\.[a-f0-9]{64}\b",
    "Alibaba": r"LTAI[a-zA-Z0-9]{20}\b",
    "Anthropic": r"sk-ant-[\w-]{24}",
    "Artifactory": r"AKCp[A-Za-z0-9]{69}\b|cmVmd[A-Za-z0-9]{59}\b",
    "Atlassian": r"ATATT3[\w=-]{186}",
    "Authress": r"(?:sc|ext|scauth|authress)_[a-zA-Z0-9]{5,30}+\.[a-zA-Z0-9]{4,6}\.acc[_-][\w-]{10,32}+\.[\w+/=-]{30}",
    "AWS": r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b(?<!EXAMPLE)|ABSK[A-Za-z0-9+/]{109}"
    r"|bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t",
    "Azure": r"[\w~.]{3}\dQ~[\w~.-]{31,34}(?![\w~.-])",
    "ClickHouse": r"4b1d[A-Za-z0-9]{38}\b",
    "Clojars": r"(?i:CLOJARS_[a-z0-9]{60})\b",
    "Cloudflare": r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}\b",
    "Databricks": r"dapi[a-f0-9]{32}\b",
    "DigitalOcean": r"do[oprDOPR]_v1_[a-fA-F0-9]{64}\b",
    "Doppler": r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{40}",
    "Duffel": r"duffel_(?:test|live)_[\w=-]{43}",
    "Dynatrace": r"dt0c01\.[a-zA-Z0-9]{24}\.[a-zA-Z0-9]{64}",
    "EasyPost": r"EZ[AT]K[a-zA-Z0-9]{54}\b",
    "Facebook": r"EAA[MC][a-zA-Z0-9]{100}|\d{15,16}\|[\w-]{27,40}(?![\w-])",
    "Flutterwave": r"FLW(?:SEC|PUB)K_TEST-(?:[a-hA-H0-9]{32}-X|[a-hA-H0-9]{12}\b)",
    "Fly.io": r"fo1_[\w-]{43}|(?:fm1[ar]|fm2)_[a-zA-Z0-9+/]{100}",
    "Frame.io": r"fio-u-[\w=-]{64}",
    "GitHub": r"gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{60}",
    "GitLab": r"gl(?:pat|dt|ffct|ft|imt|agent|oas|ptt|rt|soat)-[\w-]{20}|glcbt-[0-9a-zA-Z]{1,5}_[\w-]{20}"
    r"|GR1348941[\w-]{20}|_gitlab_session=[0-9a-z]{32}",
    "Google": r"AIza[\w-]{35}(?![\w-])|ya29\.[\w-]{60}|GOCSPX-[\w-]{28}",
    "Grafana": r"(?i:eyJrIjoi[a-z0-9]{70}|glc_[a-z0-9+/]{32}|glsa_[a-z0-9]{32}_[a-f0-9]{8}\b)",
    "Harness": r"[ps]at\.[\w-]{22}\.[a-zA-Z0-9]{24}\.[a-zA-Z0-9]{20}\b",
    "Heroku": r"HRKU-AA[\w-]{58}",
    "Hugging Face": r"(?:hf|api_org)_[a-zA-Z]{34}\b",
    "Infracost": r"ico-[a-zA-Z0-9]{32}\b",
    "Intra42": r"s-s4t2(?:ud|af)-[a-fA-F0-9]{64}\b",
    "JSON web token": r"ey[a-zA-Z0-9]{17,1000}+\.ey[\w/\\-]{17,8000}+\.(?:[\w/\\-]{10}|(?![\w/\\-]))",
    "JSON web token in base64": r"ZXlK(?=[\w/\\+-]{0,60}\d)[\w/\\+-]{60}",
    "kgd": r"kgd_[a-z]+_[A-Za-z0-9]{8}_[A-Za-z0-9]{40}",
    "Linear": r"lin_api_[a-zA-Z0-9]{40}\b",
    "Mailgun": r"key-[a-f0-9]{32}\b",
    "Mailchimp": r"[a-f0-9]{32}-us\d\d?\b",
    "MaxMind": r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b",
    "New Relic": r"NR(?:JS-[a-f0-9]{19}|II-[a-zA-Z0-9-]{32}|AK-[a-zA-Z0-9]{27})\b",
    "Notion": r"(?:ntn_[0-9]{11}[A-Za-z0-9]{35}|secret_[A-Za-z0-9]{43})\b",
    "npm": r"(?i:npm_[a-z0-9]{36})\b",
    "Octopus Deploy": r"API-[A-Z0-9]{26}\b",
    "Okta": r"00[A-Za-z0-9][\w-]{39}(?=['\"])",
    "OpenAI": r"sk-(?=[\w-]{20,80}T3BlbkFJ)[\w-]{40}|sk-(?:proj|svcacct|admin)-[\w-]{40}|sk-[a-zA-Z0-9]{48}\b",
    "OpenShift": r"sha256~[\w-]{43}(?![\w-])",
    "Perplexity": r"pplx-[a-zA-Z0-9]{48}\b",
    "PlanetScale": r"pscale_(?:tkn|oauth|pw)_[\w=.-]{32}",
    "Postman": r"PMAK-[a-fA-F0-9]{24}-[a-fA-F0-9]{34}\b",
    "Prefect": r"pnu_[a-zA-Z0-9]{36}\b",
    "Pulumi": r"pul-[a-f0-9]{40}\b",
    "PyPI": r"pypi-[\w-]{50}",
    "Readme": r"rdme_[a-z0-9]{70}\b",
    "RubyGems": r"rubygems_[a-f0-9]{48}\b",
    "Scalingo": r"tk-us-[\w-]{48}",
    "SendGrid": r"SG\.[\w=.-]{60}",
    "Sendinblue": r"xkeysib-[a-f0-9]{64}-[a-zA-Z0-9]{16}\b",
    "Sentry": r"sntrys_eyJpYXQiO[\w+/=]{60}|sntryu_[a-f0-9]{64}\b",
    "SettleMint": r"sm_[aps]at_[a-zA-Z0-9]{16}\b",
    "Shippo": r"shippo_(?:live|test)_[a-fA-F0-9]{40}\b",
    "Shopify": r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    "Slack": r"xox[abeoprs]-(?=[A-Za-z0-9-]{0,60}\d{7})[A-Za-z0-9-]{12,200}+|xox[ar]-(?:\d-)?[0-9a-zA-Z]{20,48}\b"
    r"|(?i:xapp-\d-[A-Z0-9]{5,20}+-\d{5,20}+-[a-z0-9]{10,100}+|xoxe(?:\.xox[bp])?-\d-[A-Z0-9]{140,170}+)"
    r"|hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{43}",
    "Sourcegraph": r"sgp_(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}\b",
    "Square": r"(?:EAAA[\w-]{56,60}|sq0(?:atp|csp)-[\w-]{22,60})(?![\w-])",
    "Stripe": r"(?:sk|rk)_(?:test|live|prod)_[a-zA-Z0-9]{10}|whsec_[a-zA-Z0-9]{32}",
    "Teams": r"webhook\.office\.com/webhookb2/(?i:[a-z0-9]{8}-)",
    "Telegram": r"\d{5,16}:A[\w-]{34}(?![\w-])",
    "Twilio": r"SK[0-9a-fA-F]{32}\b",
    "Twitter": r"A{22}[a-zA-Z0-9%]{80}",
    "Typeform": r"tfp_[\w.=-]{59}",
    "Vault": r"hv[sbr]\.[\w-]{90}|[sb]\.(?=[A-Za-z]{0,23}\d)[a-zA-Z0-9]{24}\b",
    "Yandex": r"t1\.[\w-]{10,200}+={0,2}\.[\w-]{86}|AQVN[\w-]{35,38}(?![\w-])|YC[\w-]{38}(?![\w-])",
}
"""Services and the forms of their tokens. Each begins at the start of a word and has at least 16 characters."""

KEYWORDS = {
    b"-----begin": (
        "private key",
        r"(?i:-----BEGIN[ A-Z0-9_-]{0,100}?PRIVATE KEY(?: BLOCK)?-----)[ \t]*+(?:\\[nr]|[\r\n]|$)",
    ),
    b"://": ("password in a URL", r"://[^\s/:@'\"<>]{0,100}+:(?P<value>[^\s/:@'\"<>(){}]{6,200}+)@[\w.-]{2}"),
    b"bearer": ("bearer token", r"(?i:bearer)[ \t]{1,5}+(?P<value>(?=[A-Za-z_.~+/-]*\d)[\w=~.+/-]{16,400}+)"),
    b"basic": (
        "password of basic authorization",
        r"(?i:basic)[ \t]{1,5}+(?P<value>[A-Za-z0-9+/]{11,400}+={0,2})(?![\w.-])",
    ),
    b"authorization": (
        "authorization header",
        r"(?i:authorization)['\"]?[ \t]{0,3}[:=,][ \t'\"]{0,4}+(?:[A-Za-z-]{3,12}[ \t]{1,3}+)?"
        r"(?P<value>(?=[A-Za-z_.~+/-]*\d)[\w=~.+/-]{20,400}+)",
    ),
    b"curl": (
        "password of curl",
        r"(?i:curl)\b[^\0]{0,300}?\s(?:-u|--user)[ =]{0,3}['\"]?[^\s:'\"]{0,100}+:(?P<value>[^\s:'\"<>(){}]{6,100}+)",
    ),
    b"accountkey": ("Azure storage key", r"(?i:accountkey)=(?P<value>[A-Za-z0-9+/]{60,90}+=*)"),
    b"sharedaccesskey": ("Azure access key", r"(?i:sharedaccesskey)=(?P<value>[A-Za-z0-9+/]{40,90}+=*)"),
    b"login": (
        "netrc password",
        r"(?i:login\s{1,5}+\S{1,100}+\s{1,5}+password)[ \t]{1,5}+(?P<value>[^\s<>{}]{6,200}+)",
    ),
    b"<add key=": (
        "NuGet password",
        r"(?i:<add key=\"(?:ClearText)?Password\"\s{1,5}+value=\"(?P<value>[^\"%]{8,200}+)\")",
    ),
    b"contribsys__com": ("Sidekiq password", r"(?i:contribsys__com)[^\n]{0,30}?(?P<value>[a-f0-9]{8}:[a-f0-9]{8})\b"),
    b"kind:": (
        "Kubernetes secret",
        r"(?i:kind:[ \t]{0,5}['\"]?secret\b)['\"]?[^\0]{0,300}?"
        r"\bdata:\s[^:]{1,200}+:\s{1,20}+(?:[>|][+-]?\s{1,20}+)?['\"]?"
        r"(?P<value>[A-Za-z0-9+/]{10,400}+={0,2})",
    ),
}
"""Keywords in lower case, each with the kind of secret that it may indicate, and its form."""

NAMES = (
    b"access",
    b"auth",
    b"api",
    b"credential",
    b"creds",
    b"key",
    b"passwd",
    b"password",
    b"passphrase",
    b"pwd",
    b"secret",
    b"token",
)
"""Substrings of names; a value assigned to such a name is a secret if it looks random."""

HARMLESS_NAMES = (
    rb"access(?:ib|or)|access[_.-]?id|random[_.-]?access|api[_.-]?(?:id|name|version)|rapid(?!api)|capital|author(?!iz)|public"
    rb"|authentication-results|credentials?[_.-]?id|csrf|turkey|monkey|keyboard|keyword|keyframe|keying|keyring"
    rb"|(?:bucket|foreign|hot|idx|natural|primary|pub|schema|sequence|sort|cache|partition|group|row|dict)[_.-]?key"
    rb"|key[_.-]?(?:alias|code|id|length|mesh|name|pair|selector|signature|size|stone|store|word|up|down|left|right|file|path)"
    rb"|secret[_.-]?(?:length|name|size|id)|(?:api|credentials|token)[_.-]?(?:endpoint|ur[il]|type)|issuerkeyhash"
    rb"|token[_.-]?(?:file|id|name|count)|import[ \t{]|--mount=type=secret|checksum|sha\d|md5|digest|integrity"
)
"""Names, or text around them, that show that the value is not a secret."""

PLACEHOLDERS = (
    rb"example|x{6}|\*{3}|abcdefgh|your[_-]|changeme|placeholder|dummy|redacted|\.\.\.|\$\{|^\$"
    rb"|^[^a-z]*+(?:(?:a|my|the|some|super|app|db|admin|root|pass(?:word|wd|phrase)?|pwd|secret|token|key|user(?:name)?|repo|test"
    rb"|foo|bar|baz|none|null|true|false)[^a-z]*+)+$"
)
"""Placeholders for secrets in documentation, in lower case."""

_PAIRS = (
    "thheineranrendatonnthaesstenedtoitoueahiisortiasteetngofaldeselesasiarveralduricroriionellcomelicech"
    "maomeltalanousecutssnspeunacloiltrhobeshctdiemgewiaiprpootmorsadiroosocaolwalykeplsubleeowidimfotsnc"
    "doapayupulamtyttigevryabpaodiaocbuogivgrbrfiexspifopdanaltckclcragefmppprtrdpyubeyobibvavininu"
)
PAIRS = frozenset(_PAIRS[at : at + 2] for at in range(0, len(_PAIRS), 2))
"""Common pairs of letters in English and in code."""


_KINDS = tuple(TOKENS)
_TOKEN = re.compile(
    b"(?<![A-Za-z0-9])(?=[A-Za-z0-9_])(?:%s)"
    % b"|".join(b"(?P<t%d>%b)" % (number, form.encode()) for number, form in enumerate(TOKENS.values()))
)
_SHORTEST = 16
"""Minimum number of characters in a token."""
_TO_WORDS, _TO_PARTS = (
    bytes(120 if byte < 128 and (chr(byte).isalnum() or chr(byte) in also) else 32 for byte in range(256))
    for also in ("_-.~+/=:@|%", "_-")
)
"""Maps text to blanks and one letter, so that plain search finds long words and long parts of words."""
_KEYWORDS = {word: (kind, re.compile(form.encode())) for word, (kind, form) in KEYWORDS.items()}
_ASSIGNED = re.compile(
    rb"""[\w.-]{0,20}+(?:[ \t]{1,3}[\w.-]{1,12}){0,2}?[ \t]{0,3}+['"]?+[ \t\r\n]{0,3}+(?:\|\||=>|:{0,3}=|\?=|[:>,])"""
    rb"""[`'"\s=]{0,12}+(?P<value>(?![a-zA-Z_]\w{0,15}=[\w-])[\w.=+/~-]{10,200}+)(?=[`'"\s;,<>)}\]&]|\\[nr]|$)"""
)
_HARMLESS_NAME = re.compile(HARMLESS_NAMES)
_PLACEHOLDER = re.compile(PLACEHOLDERS)
_UUID_OR_HEX = re.compile(r"[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12,}|[0-9a-fA-F]{24,}").fullmatch
_LOOKED_BACK = 24
"""Characters before a name in which the text may show that the value is not a secret."""
_BETWEEN = "\n" * 32
"""Separates joined texts by more line ends than `_LOOKED_BACK`, and than any pattern crosses. So a secret in one of the
texts is found in the joined texts as well."""
MIN_ENTROPY = 3.5
"""Minimum entropy of a random value, in bits per character."""
MIN_ENTROPY_HEX = 2.75


SAY_WHERE = "Write where the secret is stored, not the secret itself, since git never forgets."


class HoldsSecret(Refused):
    """Some text seems to contain a secret; the message never repeats it."""


class Secret(NamedTuple):
    """A likely credential; `text` is the credential itself, for searching and never for display."""

    kind: str
    text: str


def refuse_secrets(node: Node, before: Node | None = None, place: Callable[[str, Secret], str] | None = None) -> None:
    """Raise if a field of the node has a likely credential that no field of `before` has.

    Args:
        place: Returns the place of the secret in a file; without it, errors name the node.

    Raises:
        HoldsSecret: There is one. The error gives the place, the field and the kind of secret.
    """
    said = list(_texts(plain(before), "")) if before else []
    known, unchanged = "\n".join(text for _, text in said), set(said)
    texts = [each for each in _texts(plain(node), "") if each not in unchanged]
    if first_in(_BETWEEN.join(text for _, text in texts)) is None:  # the usual case, without a search of each text
        return
    for field, text in texts:
        if found := new_secret_in(text, known):
            raise HoldsSecret(
                f"the field '{field}' holds what looks like a secret ({found.kind})",
                at=place(field, found) if place else node.uri,
                next=SAY_WHERE,
            )


def secret_in_values(values: Mapping[str, Json]) -> str:
    """The kind of the first secret in any text among the values, or the empty string."""
    return next((kind for _, text in _texts(values, "") if (kind := secret_in(text))), "")


def refuse_secret_text(text: str, what: str, at: str = "") -> None:
    """Raise if the text, described as `what`, contains a likely credential.

    Raises:
        HoldsSecret: There is one. The error names the text and the kind of secret.
    """
    if kind := secret_in(text):
        raise HoldsSecret(f"{what} holds what looks like a secret ({kind})", at=at, next=SAY_WHERE)


def secret_in(text: str) -> str:
    """The kind of the first secret in the text, or the empty string. Linear in the length of the text."""
    found = first_in(text)
    return found.kind if found else ""


def first_in(text: str) -> Secret | None:
    """The first secret in the text, known tokens first. Linear in the length of the text."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) < _SHORTEST:
        return None
    if found := _token(data):
        return found
    lower = data.lower()
    return _by_keyword(data, lower) or _assigned(data, lower)


def new_secret_in(text: str, known: str) -> Secret | None:
    """The first secret in the text that is not in `known`; secrets in `known` are already in the history."""
    while found := first_in(text):
        if found.text not in known:
            return found
        text = text.replace(found.text, "-")
    return None


def line_of(secret: Secret, data: bytes, start: int = 0) -> int:
    """The line of a file that contains this secret, searched first from `start`.

    If the file spells the secret differently, returns the line of `start`.
    """
    spelled = secret.text.encode("utf-8", "surrogatepass")
    at = data.find(spelled, start)
    if at < 0 and (at := data.rfind(spelled, 0, start)) < 0:
        at = start
    return data.count(b"\n", 0, at) + 1


def _token(data: bytes) -> Secret | None:
    parts = data.translate(_TO_PARTS)
    at = parts.find(b"x" * _SHORTEST)
    words = data.translate(_TO_WORDS) if at >= 0 else b""
    while at >= 0:
        end = words.find(b" ", at)
        end = end if end >= 0 else len(data)
        for found in _TOKEN.finditer(data, words.rfind(b" ", 0, at) + 1, end):
            if _entropy(found[0]) > 1 and not re.search(rb"(?i)example|x{8}", found[0]):
                return Secret(_KINDS[int((found.lastgroup or "t0")[1:])], _text(found[0]))
        at = parts.find(b"x" * _SHORTEST, end)
    return None


def _by_keyword(data: bytes, lower: bytes) -> Secret | None:
    for word, (kind, form) in _KEYWORDS.items():
        for at in _places(lower, word):
            if found := form.match(data, at):
                value = found["value"] if form.groups else found[0]
                if not _PLACEHOLDER.search(value.lower()) and (word != b"basic" or _is_login(value)):
                    return Secret(kind, _text(value))
    return None


def _assigned(data: bytes, lower: bytes) -> Secret | None:
    for name in NAMES:
        for at in _places(lower, name):
            found = _ASSIGNED.match(data, at + len(name))
            if (
                found
                and _is_random(found["value"])
                and not _HARMLESS_NAME.search(lower, max(0, at - _LOOKED_BACK), found.start("value"))
            ):
                return Secret("a random value assigned to a secret's name", _text(found["value"]))
    return None


def _places(lower: bytes, word: bytes) -> Iterator[int]:
    at = lower.find(word)
    while at >= 0:
        yield at
        at = lower.find(word, at + len(word))


def _is_random(value: bytes) -> bool:
    text = value.decode("ascii")
    has_digit, has_letter = any(c.isdigit() for c in text), any(c.isalpha() for c in text)
    if not has_digit or not has_letter or _PLACEHOLDER.search(value.lower()):
        return False
    if _UUID_OR_HEX(text):
        return _entropy(value) >= MIN_ENTROPY_HEX
    return _entropy(value) >= MIN_ENTROPY - (len(value) < 24) / 2 and not _reads_as_words(text.lower())


def _is_login(value: bytes) -> bool:
    """Whether this is ``USER:PASSWORD`` in base64."""
    try:
        return b":" in base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except ValueError:
        return False


def _reads_as_words(text: str) -> bool:
    """Whether most neighbouring letters are common pairs of English, as in ``read_only_2_replicas``."""
    if len(re.findall(r"[a-z](?=\d)|\d(?=[a-z])", text)) >= 6:
        return False
    pairs = [text[at : at + 2] for at in range(len(text) - 1) if text[at : at + 2].isalpha()]
    return len(pairs) < 4 or sum(pair in PAIRS for pair in pairs) > 0.5 * len(pairs)


def _entropy(value: bytes) -> float:
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())


def _text(found: bytes) -> str:
    return found.decode("utf-8", "surrogatepass")


def _texts(value: Json, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            at = f"{path}.{key}".lstrip(".")
            # `data: {password: ...}` is an assignment as well, so the key is part of the text.
            if isinstance(inner, str):
                yield at, f"{key}: {inner}"
            elif not isinstance(inner, (int, float)):
                yield from _texts(inner, at)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, path)
