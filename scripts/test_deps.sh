#!/bin/sh
# Install the programs that only some tests use, where that can be done; say what could not. Those tests are skipped
# without them, loudly. Nothing outside of the clone is changed but by the system's package manager, as root.
set -u
cd "$(dirname "$0")/.."
missing=""

got() {  # got PROGRAM PACKAGE
  command -v "$1" >/dev/null 2>&1 && return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    [ -n "${updated:-}" ] || { apt-get update -qq && updated=1; }
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null
  fi
  command -v "$1" >/dev/null 2>&1
}

package() {  # package PROGRAM PACKAGE
  got "$1" "$2" || missing="$missing $1"
}

package strace strace
package git git
package npm npm
PATH=$PATH:/usr/sbin package sshd openssh-server
package ssh openssh-client
got chromium-headless-shell chromium-headless-shell 2>/dev/null || package chromium chromium
package zsh zsh
package fish fish
package man man-db
PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1) package postgres postgresql
PATH=$PATH:/usr/sbin package haproxy haproxy
PATH=$PATH:/usr/sbin package mkfs.xfs xfsprogs
PATH=$PATH:/usr/sbin package mkfs.btrfs btrfs-progs

if [ ! -x .venv-mcp1/bin/python ] || ! .venv-mcp1/bin/python -c 'import mcp' 2>/dev/null; then
  .venv/bin/python -m venv .venv-mcp1 &&
    .venv-mcp1/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r locks/mcp1.txt ||
    missing="$missing mcp1"
fi

if [ ! -f .minilm/tokenizer.json ]; then
  PYTHON=.venv/bin/python sh scripts/minilm.sh .minilm || missing="$missing minilm"
fi

sh tests/install_node_clients.sh || missing="$missing node22"

if [ -n "$missing" ]; then
  echo "could not be installed, their tests will be skipped:$missing" >&2
else
  echo "all programs that tests use are here"
fi
