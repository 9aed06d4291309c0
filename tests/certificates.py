"""Self-signed certificates."""

from __future__ import annotations

import subprocess
from pathlib import Path


def self_signed(folder: Path, names: str = "DNS:localhost,IP:127.0.0.1") -> tuple[Path, Path]:
    """The files of a new certificate for `names` and of its key."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    kind = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    command = ["openssl", "req", "-x509", *kind.split(), "-addext", f"subjectAltName={names}"]
    subprocess.run([*command, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key
