#!/bin/sh
# Installs what kgd is measured against, below bench-results/peers: nothing else is touched. Called by `python -m bench`
# with its own Python; what cannot be installed is reported as not measured. The second argument `peers` adds the memory
# servers of `make bench-peers`, each in a virtual environment.
set -u
cd "$(dirname "$0")/.."
into=bench-results/peers
mkdir -p "$into"
[ -f "$into/node_modules/@modelcontextprotocol/server-memory/dist/index.js" ] ||
  npm install --prefix "$into" --no-audit --no-fund --loglevel=error @modelcontextprotocol/server-memory@2026.8.31 >&2 ||
  echo "the official memory server could not be installed" >&2
[ -d "$into/python/rustworkx" ] ||
  "$1" -m pip install -q --disable-pip-version-check --target "$into/python" --only-binary :all: --require-hashes \
    -r bench/peers.txt >&2 ||
  echo "PyYAML and rustworkx could not be installed" >&2
[ "${2-}" = peers ] || exit 0

# python_with CONDITION: a Python of this machine for which the condition holds.
python_with() {
  for one in python3.12 python3.13 python3.14 python3.11 python3 /usr/bin/python3 \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python; do
    "$one" -c "import sqlite3, sys; sys.exit(not ($1))" 2>/dev/null && command -v "$one" && return
  done
}

# server NAME VERSION CONDITION NEEDS
server() {
  [ -f "$into/$1/installed" ] && return
  rm -rf "$into/$1" "$into/$1.missing"
  python=$(python_with "$3")
  if [ -z "$python" ]; then
    echo "$4" >"$into/$1.missing"
  elif "$python" -m venv "$into/$1" >&2 && "$into/$1/bin/pip" install -q --disable-pip-version-check "$1==$2" >&2; then
    touch "$into/$1/installed"
  else
    rm -rf "$into/$1"
    echo "$1 could not be installed" >&2
  fi
}

server basic-memory 0.23.2 'sys.version_info >= (3, 12)' 'needs Python 3.12'
server mcp-memory-service 12.2.0 \
  'sys.version_info >= (3, 10) and hasattr(sqlite3.Connection, "enable_load_extension")' \
  'needs Python 3.10 with loadable SQLite extensions'
