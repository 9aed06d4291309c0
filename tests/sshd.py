"""A real sshd on this machine for one test: a host key, one accepted key, and the ssh command to reach it."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from tests.ports import free_port

_SERVER = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
LogLevel ERROR
"""
_CLIENT = """\
Host kgd-test
    HostName 127.0.0.1
    Port {port}
    User {user}
    IdentityFile {folder}/key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    StrictHostKeyChecking yes
    BatchMode yes
"""


class Sshd:
    """A server until `stop`. `command` is the value for `GIT_SSH_COMMAND`; the host's name is ``kgd-test``.

    Args:
        forced: A program that every connection runs instead of the requested one (which is in
            SSH_ORIGINAL_COMMAND); empty for the requested one.
    """

    def __init__(self, folder: Path, forced: str = "") -> None:
        folder.mkdir(parents=True)
        for name in ("host_key", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        self.folder, self.port = folder, free_port()
        words = {"folder": folder, "port": self.port, "user": getpass.getuser()}
        options = f'command="{forced}",restrict ' if forced else ""
        (folder / "authorized_keys").write_text(options + (folder / "key.pub").read_text())
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {(folder / 'host_key.pub').read_text()}")
        (folder / "server").write_text(_SERVER.format(**words))
        (folder / "client").write_text(_CLIENT.format(**words))
        program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
        assert program
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd drops its root privileges
        self._process = subprocess.Popen([program, "-D", "-e", "-f", folder / "server"], stderr=subprocess.PIPE)
        self.command = f"ssh -F {folder / 'client'}"
        self._wait()

    def url(self, path: Path) -> str:
        return f"ssh://kgd-test{path}"

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate()

    def _wait(self) -> None:
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert self._process.poll() is None, self._process.communicate()[1]
                assert time.monotonic() < end
                time.sleep(0.02)
