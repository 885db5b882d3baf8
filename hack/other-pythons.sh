#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0
#
# The unit tests once more, on the oldest and the newest Python of this machine beside that of .venv.
#
#   hack/other-pythons.sh [PYTEST ARGUMENT ...]
set -euo pipefail
cd "$(dirname "$0")/.."

here=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
others=$(hack/pythons.sh others "$here")
if [ -z "$others" ]; then
    echo "left out: unit tests on another Python: this machine has none but $here"
fi
while read -r version interpreter; do
    [ -n "$version" ] || continue
    folder=.venv-$version
    if [ ! "$folder/.ready" -nt constraints.txt ] || [ ! "$folder/.ready" -nt pyproject.toml ]; then
        hack/venv.sh "$folder" "$interpreter"
    fi
    echo "unit tests on Python $version"
    PYTHONHASHSEED=3 "$folder/bin/python" -m pytest -q -n auto "$@" test/unit </dev/null
done <<<"$others"
