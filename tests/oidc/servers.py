"""Real issuers for tests: a server of OpenID Connect for people, a publisher of keys for programs, and a person."""

from __future__ import annotations

import http.client
import http.server
import json
import re
import subprocess
import threading
import time
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.conftest import ROOT
from tests.hub.conftest import Hub, new_hub
from tests.ports import free_port
from tests.sync.people import git

SCRIPT = Path(__file__).with_name("provider.mjs")
SECRET = "a-secret+of%the:hub"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


class OidcServer:
    """oidc-provider in a process of its own, with one client: a hub at `hub`."""

    def __init__(self, hub: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [str(ROOT / "node_modules/.bin/node"), str(SCRIPT), str(port), f"{hub}/ui/signed-in"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
        )
        self._answer()

    def person(self, id: str, **claims: Any) -> None:
        """Add a person, or replace their claims."""
        self.tell("person", id=id, claims=claims)

    def tell(self, command: str, **rest: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"command": command, **rest}) + "\n")
        self._process.stdin.flush()
        self._answer()

    def _answer(self) -> None:
        assert self._process.stdout is not None
        while (line := self._process.stdout.readline()) != "{}\n":  # it also prints advice
            assert line, "the server ended"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(10)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


class KeyIssuer:
    """An issuer of programs' ID tokens, such as a CI system: it publishes its metadata and keys, and signs."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        self.asked: list[str] = []
        issuer = self

        class Answering(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                body = json.dumps(issuer._answers()[self.path]).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def keys(self) -> list[dict[str, Any]]:
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return [{**public, "kid": "first", "use": "sig", "alg": "RS256"}]

    def _answers(self) -> dict[str, Any]:
        return {
            "/.well-known/openid-configuration": {"issuer": self.url, "jwks_uri": f"{self.url}/keys"},
            "/keys": {"keys": self.keys},
        }

    def token(
        self, claims: dict[str, Any], *, key: Any = None, algorithm: str = "RS256", header: dict[str, Any] | None = None
    ) -> str:
        """A signed token with these claims and the usual ones. A claim of None is left out."""
        now = int(time.time())
        known = {"iss": self.url, "sub": "repo:acme/shop", "iat": now, "nbf": now, "exp": now + 300, **claims}
        given = {name: value for name, value in known.items() if value is not None}
        return jwt.encode(given, key or self.key, algorithm, headers={"kid": "first", **(header or {})})

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass
class Page:
    status: int
    url: str
    text: str
    location: str = ""


@dataclass
class Person:
    """A person with a browser without scripts: it keeps cookies, follows redirects and sends forms.

    A redirect to an address that begins with `stops_at` is not followed; its page has this address.
    """

    cookies: dict[tuple[str, str], str] = field(default_factory=dict)
    stops_at: str = ""

    def open(self, url: str, form: dict[str, str] | None = None) -> Page:
        for _ in range(20):
            page = self._exchange(url, form)
            if not page.location:
                return page
            url, form = urljoin(url, page.location), None
            if self.stops_at and url.startswith(self.stops_at):
                return Page(303, url, "")
        raise AssertionError(f"too many redirects, to {url}")

    def send(self, page: Page, **fields: str) -> Page:
        """Send the first form of a page, with its hidden fields and these values."""
        [tag, inside] = re.findall(r"<form([^>]*)>(.*?)</form>", page.text, re.S)[0]
        action = re.search(r'action="([^"]*)"', tag)
        hidden = re.findall(r'<input[^>]*type="hidden"[^>]*>', inside)
        known = {_attribute(one, "name"): _attribute(one, "value") for one in hidden}
        return self.open(urljoin(page.url, unescape(action[1]) if action else page.url), {**known, **fields})

    def sign_in(self, page: Page, id: str) -> Page:
        """Fill in the issuer's pages as this person, until another server or the issuer's last page is reached."""
        for _ in range(5):
            if 'value="login"' in page.text:
                page = self.send(page, login=id, password="any")
            elif 'value="consent"' in page.text:
                page = self.send(page)
            else:
                return page
        raise AssertionError(page.text)

    def _exchange(self, url: str, form: dict[str, str] | None) -> Page:
        parts = urlsplit(url)
        port = parts.port or 80
        mine = {name: value for (host, name), value in self.cookies.items() if host == parts.netloc}
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in mine.items())} if mine else {}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection = http.client.HTTPConnection(parts.hostname or "", port, timeout=30)
        try:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            body = urlencode(form) if form is not None else None
            connection.request("GET" if body is None else "POST", target, body, headers)
            answer = connection.getresponse()
            for given in answer.msg.get_all("set-cookie") or ():
                name, _, value = given.partition(";")[0].partition("=")
                self.cookies[parts.netloc, name] = value.strip('"')
            text = answer.read().decode()
            return Page(answer.status, url, text, answer.getheader("location", ""))
        finally:
            connection.close()


def _attribute(tag: str, name: str) -> str:
    found = re.search(rf'{name}="([^"]*)"', tag)
    return unescape(found[1]) if found else ""


def query(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


def configured(folder: Path, address: str, issuers: dict[str, Any], *more: str) -> Hub:
    """A hub, not started yet, that lets these issuers' accounts sign in."""
    file = folder / "oidc.json"  # YAML includes JSON
    file.write_text(json.dumps({"url": address, "issuers": issuers}))
    listen = urlsplit(address).netloc
    return new_hub(folder, "--listen", listen, "--oidc", str(file), *more)


def grant(hub: Hub, *grants: dict[str, Any], workspace: str = "infra") -> None:
    """Replace the grants of a workspace, as its administrator does: by a push."""
    clone = hub.folder / f"keeper-{workspace}"
    if not clone.exists():
        git(
            hub.folder,
            "clone",
            "-q",
            hub.git_url(hub.mint("read,write,admin", name="keeper", workspace=workspace), workspace),
            str(clone),
        )
    git(clone, "pull", "-q")
    file = clone / "kgd.yaml"
    before = file.read_text().partition("groups:")[0]
    file.write_text(before + ("groups:\n" + "".join(f"- {json.dumps(one)}\n" for one in grants) if grants else ""))
    git(clone, "-c", "user.name=Keeper", "-c", "user.email=k@example.org", "commit", "-qam", "grants")
    git(clone, "push", "-q", "origin", "HEAD:main")


def form(hub: Hub, place: str, **fields: str) -> tuple[int, dict[str, Any]]:
    """The status and the answer of a form to `/v1/sign_in`."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = hub.ask("POST", f"/v1/sign_in/{place}", body=urlencode(fields).encode(), headers=headers)
    return answer.status, answer.json
