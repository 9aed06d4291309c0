"""Units that start the daemon at login, for systemd and launchd."""

from __future__ import annotations

from xml.sax.saxutils import escape

from kgd.config import Home


def unit(system: str, home: Home, program: list[str]) -> str:
    """The unit's text, with a first line that says where it goes. The daemon is started on demand without it too."""
    places = ["--config", home.config, "--state", home.state, "--logs", home.logs]
    return _launchd(home, [*program, *places]) if system == "launchd" else _systemd([*program, *places])


def _systemd(command: list[str]) -> str:
    line = " ".join(_quoted(word) for word in command)
    return f"""\
# ~/.config/systemd/user/kgd.service; then: systemctl --user enable --now kgd
[Unit]
Description=kgd, the knowledge workspace daemon

[Service]
ExecStart={line}
Restart=on-failure
# 75: another daemon of this home runs already, which is as good.
SuccessExitStatus=75
TimeoutStopSec=30

[Install]
WantedBy=default.target
"""


def _launchd(home: Home, command: list[str]) -> str:
    words = "\n".join(f"    <string>{escape(word)}</string>" for word in command)
    return f"""\
<?xml version="1.0" encoding="UTF-8"?>
<!-- ~/Library/LaunchAgents/kgd.plist; then: launchctl load ~/Library/LaunchAgents/kgd.plist -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>kgd</string>
  <key>ProgramArguments</key>
  <array>
{words}
  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>StandardErrorPath</key>
  <string>{escape(home.logs)}/launchd.log</string>
</dict>
</plist>
"""


def _quoted(word: str) -> str:
    """systemd's rules: ``%`` and ``$`` are doubled, blanks need quotes."""
    safe = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{safe}"' if any(c in safe for c in " '\"\\") else safe
