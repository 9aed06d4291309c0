"""The search for secrets: credentials of many kinds are found, ordinary text is not, and it takes linear time.

The credentials are made when the tests run, so that no file holds one. `python -m bench.secrets` measures the search
against the cases of another scanner and against whole code trees.
"""

from __future__ import annotations

import base64
import random
import string
import time
from collections.abc import Callable

import pytest

from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace.writing.secrets import HoldsSecret, refuse_secrets, secret_in

LETTERS, DIGITS, HEX = string.ascii_letters, string.digits, "0123456789abcdef"
WORD = LETTERS + DIGITS
BASE64 = WORD + "+/"
_chance = random.Random(24)


def of(alphabet: str, count: int) -> str:
    return "".join(_chance.choices(alphabet, k=count))


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode().rstrip("=")


def jwt() -> str:
    header, claims = '{"alg":"HS256","typ":"JWT"}', '{"sub":"1234567890","admin":true}'
    return f"{b64(header)}.{b64(claims)}.{of(WORD, 43)}"


def uuid() -> str:
    return "-".join(of(HEX, count) for count in (8, 4, 4, 4, 12))


CREDENTIALS: dict[str, Callable[[], str]] = {
    "AWS key id": lambda: f"aws: AKIA{of(string.ascii_uppercase, 14)}42",
    "AWS secret key": lambda: f"aws_secret_access_key = {of(BASE64, 38)}7x",
    "GitHub": lambda: f"use gh{'p'}_{of(WORD, 36)} here",
    "GitHub fine-grained": lambda: f"github{'_pat'}_{of(WORD, 82)}",
    "GitLab": lambda: f"GL=gl{'pat'}-{of(WORD, 20)}",
    "Slack bot": lambda: f"xo{'xb'}-{of(DIGITS, 12)}-{of(DIGITS, 12)}-{of(WORD, 24)}",
    "Slack webhook": lambda: f"https://hooks.slack.com/{'services'}/T{of(WORD, 10)}/B{of(WORD, 10)}/{of(WORD, 24)}",
    "Stripe": lambda: f"sk_{'live'}_{of(WORD, 24)}",
    "Google": lambda: f"AI{'za'}{of(WORD, 35)}",
    "Anthropic": lambda: f"sk-{'ant'}-api03-{of(WORD, 93)}AA",
    "OpenAI": lambda: f"sk-{'proj'}-{of(WORD, 74)}T3BlbkFJ{of(WORD, 74)}",
    "PyPI": lambda: f"py{'pi'}-AgEIcHlwaS5vcmc{of(WORD, 90)}",
    "npm": lambda: f"//registry.example.org/:_authToken=np{'m'}_{of(WORD, 36)}",
    "JSON web token": jwt,
    "JSON web token in a header": lambda: f"Cookie: session={jwt()}",
    "password in a URL": lambda: f"postgres://app:{of(WORD, 14)}@db.internal:5432/shop",
    "short password in a URL": lambda: "redis://:hunt3r2!x@cache:6379/0",
    "bearer": lambda: f"Authorization: Bearer {of(WORD, 32)}",
    "basic": lambda: f"Authorization: Basic {b64('ann:correct horse')}",
    "curl": lambda: f"curl -s -u ann:{of(WORD, 12)} https://api.example.org",
    "Azure storage": lambda: f"DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={of(BASE64, 86)}==",
    "Azure client secret": lambda: f"the secret is {of(WORD, 3)}8Q~{of(WORD, 34)}",
    "Azure service bus": lambda: f"SharedAccessKeyName=Root;SharedAccessKey={of(BASE64, 43)}=",
    "Vault": lambda: f"VAULT=hv{'s'}.{of(WORD, 95)}",
    "Vault, old": lambda: f"token: s.{of(WORD, 23)}7",
    "SendGrid": lambda: f"S{'G'}.{of(WORD, 22)}.{of(WORD, 43)}",
    "Twilio": lambda: f"twilio S{'K'}{of(HEX, 32)}",
    "Twilio auth token": lambda: f"TWILIO_AUTH_TOKEN={of(HEX, 32)}",
    "Hugging Face": lambda: f"h{'f'}_{of(LETTERS, 34)}",
    "netrc": lambda: f"machine git.example.org login ann password {of(WORD, 10)}",
    "docker auth": lambda: '{"auths": {"index.example.org": {"auth": "' + b64("ann:" + of(WORD, 16)) + '"}}}',
    "hex api key": lambda: f"api_key={of(HEX, 32)}",
    "hex key, quoted": lambda: f'"apiKey": "{of(HEX, 40)}"',
    "uuid key": lambda: f"HEROKU_API_KEY: {uuid()}",
    "password": lambda: f"password = '{of(WORD, 24)}'",
    "password in YAML": lambda: f"db:\n  passwd: {of(WORD, 20)}\n",
    "Kubernetes": lambda: f"kind: Secret\nmetadata:\n  name: db\ndata:\n  pw: {b64(of(WORD, 16))}\n",
    "private key": lambda: f"-----BEGIN RSA {'PRIVATE'} KEY-----\nMIIEpAIBAAKCAQEA{of(BASE64, 40)}\n",
    "private key in JSON": lambda: '"key": "-----BEGIN ' + "PRIVATE" + f' KEY-----\\nMIIEvQ{of(BASE64, 40)}\\n"',
    "PGP key": lambda: f"-----BEGIN PGP {'PRIVATE'} KEY BLOCK-----\n\nlQOY{of(BASE64, 40)}\n",
    "age": lambda: f"AGE-SECRET-{'KEY'}-1{of('QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L', 58)}",
    "DigitalOcean": lambda: f"do{'p'}_v1_{of(HEX, 64)}",
    "Databricks": lambda: f"da{'pi'}{of(HEX, 32)}",
    "Telegram": lambda: f"bot {of(DIGITS, 9)}:A{of(WORD, 34)}",
    "kgd": lambda: f"kg{'d'}_agent_{of(WORD, 8)}_{of(WORD, 43)}_{of(WORD, 6)}",
}

HARMLESS = {
    "prose about tokens": "The access token expires after 15 minutes; the refresh token is kept in the session cookie.",
    "a commit": "Fixed in 3f2b8c1d9e7a6054f1c2b3d4e5a6978812345678, see the changelog.",
    "a commit behind a colon": "commit: 3f2b8c1d9e7a6054f1c2b3d4e5a6978812345678",
    "a checksum": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  api.tar.gz",
    "a lock file": '"integrity": "sha512-oSH3Wf9bKkRmnHOVYpEFTMKvTnXvYKLIoD2tLN6EL4nFjRkYdUxSyG2Z8XvZwMbLpHZBVJg=="',
    "a wheel's record": "pkg/api.py,sha256=cWX1ZlscmOyTkvthiBpUWLcSRBtqlpn-moBu4esBmzI,1450",
    "a setting by name": "SECRET_KEY = os.environ['DJANGO_SECRET_KEY']",
    "a variable": "password: ${DATABASE_PASSWORD_PRODUCTION_1}",
    "a template": "api_key: {{ vault_api_key_2024_production }}",
    "a placeholder": "token: your-api-token-goes-here-123456",
    "a URL of documentation": "git clone https://username:password@example.org/repo.git",
    "a URL with a port": "http://[::1]:8080/path and ssh://git@example.org:22/x.git",
    "a call": "password = hash_password(user.password_v2_candidate)",
    "an identifier": "key=lambda item: item.created_at_utc_2024",
    "a foreign key": "foreign_key: fk_orders_customers_2024_v2",
    "a cache key": "cache_key = template.cache.navigation.fragment.2024.v17",
    "a public key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJkq2vYz0mX3kq8Q7m5v1w9r3t5y7u9i1o3p5a7s9d1f ann@example.org",
    "a header of keys": "if not pem.startswith('-----BEGIN PRIVATE KEY-----'): raise ValueError",
    "basic prose": "This section has a basic understanding of the tokenizer, and basic authentication.",
    "an author": "Author: Ann Example <ann@example.org>\nauthored-by: ann-example-2024-11-20",
    "a version": "api: v2.14.0-rc1+build20241120 and API_VERSION=2024-11-20-preview",
    "a path": "key_file = /etc/ssl/private/server-2024-11-20.pem",
    "a workspace address": "see concept://infra/services/auth2/token-rotation-2024 and memory://infra/key/2024-11",
}


@pytest.mark.parametrize("kind", CREDENTIALS)
def test_a_credential_of_a_common_kind_is_found(kind: str) -> None:
    _chance.seed(kind)
    missed = [text for text in (CREDENTIALS[kind]() for _ in range(40)) if not secret_in(text)]
    assert len(missed) <= 2, missed  # by chance some have no digit, or only a few different ones


@pytest.mark.parametrize("kind", CREDENTIALS)
def test_other_fields_do_not_hide_a_credential_in_one_field(kind: str) -> None:
    """The fields of a node are searched together."""
    _chance.seed(kind)
    held = next(text for text in iter(CREDENTIALS[kind], "") if secret_in(f"b: {text}"))
    for around in ("csrf checksum", "example", "curl", "kind: secret", "api_key =", "login x password"):
        node = Node(Uri("concept://ws/x"), summary=around, content=around, data={"a": around, "b": held, "c": around})
        with pytest.raises(HoldsSecret, match=r"data\.b"):
            refuse_secrets(node)


@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS)
def test_ordinary_text_is_accepted(text: str) -> None:
    assert secret_in(text) == ""


HOSTILE = {
    "names": "key token=" * 8_000,
    "prefixes": "sk-xoxb-AKIAhf_ey." * 5_000,
    "one word": "eyA" * 30_000,
    "words in words": "eyAAAAAAAAAAAAAAAAAA.eyAAAAAAAAAAAAAAAAAA-" * 2_500,
    "signs": "=" * 90_000,
    "rules": "-" * 90_000,
    "begins": "-----BEGIN " * 8_000,
    "addresses": "://a:b" * 15_000,
    "logins": "login a password " * 5_000,
    "curls": "curl -u " * 11_000,
    "kinds": "kind: secret data: " * 4_700,
    "blanks": "password" + " " * 90_000,
    "placeholders": "://u:" + "pass" * 20_000 + "@h",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_takes_more_than_linear_time(text: str) -> None:
    def seconds(times: int) -> float:
        best = 99.0
        for _ in range(3):
            began = time.process_time()
            secret_in(text * times)
            best = min(best, time.process_time() - began)
        return best

    one = max(seconds(1), 0.002)
    assert one < 2
    assert seconds(4) < 12 * one
