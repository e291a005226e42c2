#!/bin/sh
# Build the wheel, install it into an empty environment outside the tree, and render the example's ticket with it.
set -eu
python=${1:-python3}
here=$(pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
.venv/bin/python -m build --wheel --outdir "$work/dist" . >/dev/null
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check "$work"/dist/*.whl
cp -r "$here/examples/upgrade-1.37/before" "$work/before"
cd "$work"
"$work/venv/bin/changegen" --version
"$work/venv/bin/changegen" profile list >/dev/null
"$work/venv/bin/changegen" ticket before --profile kubernetes-1.37-dra -o wheel.md
"$work/venv/bin/changegen" ticket before --profile kubernetes-1.37-dra -o wheel.html
if sh "$here/tools/system.sh" --check; then
  "$work/venv/bin/changegen" ticket before --profile kubernetes-1.37-dra -o wheel.pdf
  head -c 5 wheel.pdf | grep -q '%PDF-'
fi
"$here/.venv/bin/changegen" ticket before --profile kubernetes-1.37-dra -o checkout.md
cmp wheel.md checkout.md
echo "wheel ok: $(ls dist)"
