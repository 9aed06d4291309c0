#!/bin/sh
# From an empty machine to a fact that one MCP client wrote and another one read, in at most ten commands, timed.
#
# Usage: sh scripts/five_minutes.sh [NEW_FOLDER]
#
# All of it happens in the folder, kgd's home included, and the person's own kgd is left alone. With KGD naming a
# program that is there already, nothing is installed; PYTHON is the Python to use.
set -eu

repository=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$(mktemp -d)}
python=${PYTHON:-python3}
mkdir -p "$folder"
cd "$folder"
KGD_HOME=$PWD/home
export KGD_HOME
began=$(date +%s)

run() {
    printf '$ %s\n' "$*"
    "$@"
}

if [ -z "${KGD:-}" ]; then
    KGD=$PWD/kgd/.venv/bin/kgd
run git clone --quiet "$repository" kgd
run make -s -C kgd PYTHON="$python" up
fi
trap '"$KGD" down --quiet' EXIT
client=$repository/scripts/mcp_client.py
fact='{"changes": [{"op": "upsert", "type": "decision", "name": "Sign tokens with HS256",
  "summary": "one service signs and checks", "relations": [{"type": "about", "target": "./src/auth"}]}]}'

run mkdir -p shop/src/auth
run git init --quiet shop
run "$KGD" -C shop up --quiet
run "$python" "$client" shop first-client put "$fact" "$KGD" mcp
run "$KGD" down
run "$python" "$client" shop another-client search '{"query": "sign tokens"}' "$KGD" mcp >recalled.json
grep -q 'one service signs and checks' recalled.json || { cat recalled.json; exit 1; }
echo "remembered by one client, recalled by another after a restart, $(($(date +%s) - began)) s"
