"""Call one tool of an MCP server over stdio and print its answer: a whole MCP client of the handshake era in one page.

Usage: python scripts/mcp_client.py DIRECTORY CLIENT_NAME TOOL ARGUMENTS_AS_JSON COMMAND...
"""

import json
import subprocess
import sys
from typing import Any


def main() -> None:
    directory, name, tool, arguments, *command = sys.argv[1:]
    with subprocess.Popen(command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        who = {"name": name, "version": "1"}
        opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who}
        ask(server, 1, "initialize", opening)
        say(server, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        answer = ask(server, 2, "tools/call", {"name": tool, "arguments": json.loads(arguments)})
        server.stdin.close()  # type: ignore[union-attr]
    print(json.dumps(answer["structuredContent"], indent=2))
    sys.exit(1 if answer.get("isError") else 0)


def ask(server: "subprocess.Popen[bytes]", number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    say(server, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    for line in server.stdout:  # type: ignore[union-attr]
        message = json.loads(line)
        if message.get("id") == number:
            if "error" in message:
                sys.exit(message["error"]["message"])
            return dict(message["result"])
    sys.exit("the server has ended")


def say(server: "subprocess.Popen[bytes]", message: dict[str, Any]) -> None:
    server.stdin.write(json.dumps(message).encode() + b"\n")  # type: ignore[union-attr]
    server.stdin.flush()  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
