"""Sealed values: data that a client keeps for the hub, and that only hubs with the key can read or create."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from typing import Any

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES, NONCE_BYTES = 32, 12
LIMIT = 32 << 10


class Sealing:
    """Seals with one key; thread-safe. A value sealed for one purpose cannot be opened for another."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key[:KEY_BYTES])

    def seal(self, purpose: str, values: Mapping[str, Any]) -> str:
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, orjson.dumps(dict(values)), purpose.encode())
        return base64.urlsafe_b64encode(nonce + sealed).decode().rstrip("=")

    def open(self, purpose: str, text: str) -> dict[str, Any] | None:
        """The values; None if they were changed, or sealed with another key or for another purpose."""
        if len(text) > LIMIT:
            return None
        try:
            data = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
            values = orjson.loads(self._cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], purpose.encode()))
        except (InvalidTag, ValueError, binascii.Error):
            return None
        return values if isinstance(values, dict) else None
