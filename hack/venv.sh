#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0
#
# Make a virtual environment with the locked versions, or bring it up to them.
#
#   hack/venv.sh FOLDER INTERPRETER
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1 interpreter=$2

# An environment whose interpreter has gone, or that was cut off while it was made, is made anew.
if ! "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$folder"
    echo "making $folder with $("$interpreter" --version)"
    "$interpreter" -m venv "$folder"
fi
pip=("$folder/bin/python" -m pip --disable-pip-version-check --no-input)
"${pip[@]}" install --quiet --constraint constraints.txt --upgrade pip
"${pip[@]}" install --quiet --constraint constraints.txt --build-constraint constraints.txt \
    --editable . --group dev
touch "$folder/.ready"
