#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0
#
# Which Pythons this machine has, of those that can run and test ascendop (3.11 or newer, with venv).
#
#   hack/pythons.sh main            the interpreter for .venv: python3 if it will do, else the newest
#   hack/pythons.sh others VERSION  "VERSION INTERPRETER" of the oldest and the newest, but for VERSION
set -euo pipefail

# Version managers leave names in PATH that answer only for the version they are set to.
usable() {
    "$1" -c 'import sys, venv, ensurepip, ssl
assert sys.version_info >= (3, 11)
print("%d.%d" % sys.version_info[:2], sys._base_executable)' 2>/dev/null </dev/null
}

found() {
    local candidate
    for candidate in python3 python3.{11..19} \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 \
        "${XDG_DATA_HOME:-$HOME/.local/share}"/uv/python/*/bin/python3 \
        /opt/python/*/bin/python3 /usr/local/bin/python3.*; do
        command -v "$candidate" >/dev/null && usable "$candidate" || true
    done | sort -V -u -k1,1
}

case "${1:-}" in
main)
    main=$(usable python3 || found | tail -n 1)
    if [ -z "$main" ]; then
        echo "no Python 3.11 or newer with venv: install one, e.g. the packages python3 and python3-venv" >&2
        exit 1
    fi
    echo "${main#* }"
    ;;
others)
    found | sed -n '1p;$p' | uniq | grep -v "^$2 " || true
    ;;
*)
    sed -n '6,8s/^# *//p' "$0" >&2
    exit 2
    ;;
esac
