#!/bin/sh
# Make the project's own virtual environment with the package and its development tools.
set -eu
venv=$1
python=${PYTHON:-python3}
"$python" - <<'PY' || { echo "changegen needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
import sys
sys.exit(sys.version_info < (3, 11))
PY
if [ ! -x "$venv/bin/python" ]; then
  "$python" -m venv "$venv" 2>/dev/null || {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
      apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null
      "$python" -m venv "$venv"
    else
      echo "python3 -m venv does not work here; on Debian or Ubuntu: apt-get install python3-venv" >&2
      exit 1
    fi
  }
fi
"$venv/bin/python" -m pip install -q --disable-pip-version-check --upgrade "pip>=25.1"
"$venv/bin/python" -m pip install -q --disable-pip-version-check -e . --group dev
# An editable installation is not compiled by pip, and where PYTHONDONTWRITEBYTECODE is set it never would be.
env -u PYTHONDONTWRITEBYTECODE "$venv/bin/python" -m compileall -q changegen
