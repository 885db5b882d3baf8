#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0
#
# Run a real framework in pods of this machine: its wheels go into an environment outside the work
# tree, made once, and the pods' python3 is that environment's.
#
#   hack/demo.sh NAME PACKAGE...        NAME of examples/frameworks/NAME.yaml
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1
shift
folder=${XDG_CACHE_HOME:-$HOME/.cache}/ascendop/frameworks/$name
if ! [ -f "$folder/.ready" ]; then
    echo "installing $* into $folder, once"
    rm -rf "$folder"
    "$(hack/pythons.sh main)" -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check "$@"
    touch "$folder/.ready"
fi
sed "s|\[python3,|[$folder/bin/python3,|" "examples/frameworks/$name.yaml" |
    .venv/bin/ascendop local --timeout 300 -
