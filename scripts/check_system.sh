#!/usr/bin/env bash
# Names what the operating system lacks, with the one line that brings it; as root, runs that line.
set -u
missing=()
packages=()
need() { missing+=("$1"); packages+=("${@:2}"); }

PYTHON=${PYTHON:-python3}
"$PYTHON" - <<'PY' || need "Python 3.11 or 3.12 (found: $("$PYTHON" --version 2>&1))" python3.11 python3.11-venv
import sys
sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))
PY
"$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || need "Python's venv module" python3-venv
"$PYTHON" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' \
  || need "Python's headers" python3-dev
{ command -v cc && command -v c++; } >/dev/null 2>&1 || need "a C and C++ compiler" build-essential
command -v git >/dev/null 2>&1 || need "git" git
have_library() { { ldconfig -p 2>/dev/null || /sbin/ldconfig -p; } | grep -q "$1"; }
have_library 'libEGL\.so\.1' || need "EGL (headless rendering)" libegl1 libgl1
compgen -G '/usr/lib/*/dri/*_dri.so' >/dev/null || compgen -G '/usr/lib/*/libgallium*' >/dev/null || have_library 'libEGL_nvidia' \
  || need "an OpenGL driver (Mesa's software renderer)" libgl1-mesa-dri

[ ${#missing[@]} -eq 0 ] && exit 0
printf 'Missing: %s\n' "${missing[@]}" >&2
line="apt-get install -y ${packages[*]}"
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "Running: $line" >&2
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive $line -qq; } >&2 && exit 0
fi
echo "Bring it with:  sudo $line" >&2
exit 1
