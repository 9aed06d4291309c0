"""Start kgd over this very code tree and walk it: what `make up` does after it has installed.

Usage: python scripts/first_walk.py PATH_TO_KGD
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def kgd(program: Path, *arguments: str) -> str:
    done = subprocess.run([program, "-C", ROOT, *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def main() -> None:
    program = Path(sys.argv[1]).resolve()
    print(kgd(program, "up"), end="")
    walk = json.loads(kgd(program, "traverse", "./", "--max-cost", "1", "--json"))
    print(f"\nA walk from the root of this tree with cost 1 met {len(walk['nodes'])} nodes, first:")
    for node in walk["nodes"][:8]:
        print(f"  {node['cost']:<4g} {node['uri']}")
    print(f'\nTo have kgd on the PATH:   export PATH="{program.parent}:$PATH"')
    wiring = {"mcpServers": {"kgd": {"command": str(program), "args": ["mcp"]}}}
    print(f"To paste into an MCP client: {json.dumps(wiring)}")


if __name__ == "__main__":
    main()
