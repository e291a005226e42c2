#!/bin/sh
# The system packages that the PDF needs: WeasyPrint's libraries, fonts (Latin and Chinese), and pdftotext for tests.
# As root on Debian or Ubuntu they are installed; elsewhere this says what is missing, and Markdown and HTML still work.
# --check: only tell (exit 1) whether a PDF can be written.
set -eu
libraries="libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0"
fonts="fonts-dejavu-core fonts-open-sans fonts-noto-cjk"
tools="fontconfig"

can_pdf() {
  for name in libpango-1.0 libpangoft2-1.0 libharfbuzz; do
    ldconfig -p 2>/dev/null | grep -q "$name" || return 1
  done
  command -v fc-list >/dev/null 2>&1 && [ -n "$(fc-list 2>/dev/null | head -n 1)" ]
}

if [ "${1:-}" = --check ]; then can_pdf; exit $?; fi

missing=""
if command -v dpkg-query >/dev/null 2>&1; then
  for package in $libraries $fonts $tools; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing="$missing $package"
  done
else
  can_pdf || missing=" pango (1.44 or newer), harfbuzz, fontconfig, a font, a CJK font for --lang zh-CN"
fi
[ -n "$missing" ] || exit 0
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  echo "installing:$missing" >&2
  apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
  exit 0
fi
echo "For PDF these are missing:$missing" >&2
if command -v apt-get >/dev/null 2>&1; then
  echo "Install them as root: apt-get install$missing" >&2
fi
echo "Markdown and HTML work without them." >&2
