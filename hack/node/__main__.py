# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A cluster of real nodes from the command line.

python -m hack.node up [--two]    start it; prints where its kubeconfig is
python -m hack.node down          end it
python -m hack.node why-not       why this machine cannot have one; nothing when it can
python -m hack.node packages      the packages of Debian that it needs

ASCENDOP_NODE=NAME:NUMBER is another one, beside the one that it is otherwise.
"""

from __future__ import annotations

import argparse
import sys

from hack.node.cluster import Node, NodeError
from hack.node.layout import default_layout
from hack.node.machine import PACKAGES, why_not

VERBS = {
    "up": "start it",
    "down": "end it",
    "why-not": "why this machine cannot have one",
    "packages": "the packages of Debian that it needs",
}


def main() -> int:
    """0 when it worked, 1 with one sentence when it did not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, does in VERBS.items():
        made = verbs.add_parser(verb, help=does)
        if verb == "up":
            made.add_argument("--two", action="store_true", help="with a second node")
    asked = parser.parse_args()
    try:
        return _do(asked.verb, two="two" in asked and asked.two)
    except (NodeError, ValueError) as error:
        print(f"node: {error}", file=sys.stderr)
        return 1


def _do(verb: str, *, two: bool) -> int:
    first = Node(default_layout())
    second = Node(first.layout.joined())
    match verb:
        case "up":
            first.up()
            if two:
                second.up()
            print(f"export KUBECONFIG={first.layout.kubeconfig()}")
        case "down":
            second.down()
            first.down()
        case "packages":
            print(PACKAGES)
        case "why-not" if reason := why_not():
            print(reason)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
