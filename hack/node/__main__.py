# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A cluster of real nodes from the command line.

python -m hack.node up [--two] [--image NAME ...]   start it; prints where its kubeconfig is
python -m hack.node down                            end it
python -m hack.node why-not                         why this machine cannot have one, if so
python -m hack.node packages                        the packages of Debian that it needs

ASCENDOP_NODE=NAME:NUMBER is another one, beside the one that it is otherwise.
"""

from __future__ import annotations

import argparse
import sys

from hack.node.cluster import Node, NodeError
from hack.node.images import IMAGES
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
            made.add_argument(
                "--image",
                action="append",
                choices=sorted(IMAGES),
                metavar="NAME",
                default=[],
                help="with this image, too",
            )
    asked = parser.parse_args()
    try:
        if asked.verb == "up":
            return _up(two=asked.two, also=asked.image)
        return _do(asked.verb)
    except (NodeError, ValueError) as error:
        print(f"node: {error}", file=sys.stderr)
        return 1


def _up(*, two: bool, also: list[str]) -> int:
    layout = default_layout()
    for one in (layout, layout.joined()) if two else (layout,):
        Node(one).up().have(*also)
    print(f"export KUBECONFIG={layout.kubeconfig()}")
    return 0


def _do(verb: str) -> int:
    match verb:
        case "down":
            layout = default_layout()
            Node(layout.joined()).down()
            Node(layout).down()
        case "packages":
            print(PACKAGES)
        case "why-not" if reason := why_not():
            print(reason)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
