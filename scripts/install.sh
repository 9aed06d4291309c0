#!/bin/sh
# Install kgd and the packages of one lock file into .venv; called by the Makefile.
# Usage: scripts/install.sh PYTHON LOCKFILE. Each known failure is one message, and a later run starts clean.
set -u
python=$1 lock=$2 venv=.venv log=.venv/install.log

stop() {  # stop WHAT NEXT
  printf 'kgd: %s\n     %s\n' "$1" "$2" >&2
  exit 1
}

pip() {
  "$venv/bin/python" -m pip --disable-pip-version-check install -q "$@" >>"$log" 2>&1
}

if [ ! -x "$venv/bin/python" ]; then
  command -v "$python" >/dev/null 2>&1 || stop "there is no program $python" "Install Python 3.11 or newer, or name it: make PYTHON=python3.11 up"
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    stop "Python 3.11 or newer is needed, and $python is $("$python" -V 2>&1)" "Name a newer one: make PYTHON=python3.11 up"
  "$python" -c 'import ensurepip, venv' 2>/dev/null ||
    stop "this Python cannot make virtual environments: its venv module is missing" "Install it, on Debian and Ubuntu with: apt install python3-venv"
  "$python" -m venv "$venv" || { rm -rf "$venv"; stop "the virtual environment $venv could not be made" "The lines above say why."; }
fi

echo "Installing kgd and $lock into $venv. This takes about a minute."
: >"$log"
# Compiling happens on first import: most of the installed code is never imported.
# Until 0.1.0 this project was installed as `kgd`, which an unrelated package owns.
"$venv/bin/python" -m pip uninstall -q -y kgd >>"$log" 2>&1
pip --no-compile --require-hashes -r "$lock" && pip --no-deps --no-build-isolation -e . && exit 0
if grep -qiE 'connection|resol|timed out|no matching distribution|unreachable' "$log"; then
  stop "the packages could not be downloaded" "Check the network or the index that pip uses, then run make again. Details: $log"
fi
tail -n 5 "$log" >&2
stop "the packages could not be installed" "Details: $log"
