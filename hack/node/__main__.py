# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A cluster of real nodes from the command line.

python -m hack.node up [--two]    start it; prints where its kubeconfig is
python -m hack.node down          end it
python -m hack.node why-not       why this machine cannot have one; nothing when it can
"""

from __future__ import annotations

import argparse
import sys

from hack.node.cluster import Node, NodeError, why_not
from hack.node.layout import default_layout


def main() -> int:
    """0 when it worked, 1 with one sentence when it did not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="start it")
    up.add_argument("--two", action="store_true", help="with a second node")
    verbs.add_parser("down", help="end it")
    verbs.add_parser("why-not", help="why this machine cannot have one")
    asked = parser.parse_args()
    first = Node(default_layout())
    second = Node(first.layout.joined())
    try:
        match asked.verb:
            case "up":
                first.up()
                if asked.two:
                    second.up()
                print(f"export KUBECONFIG={first.layout.kubeconfig()}")
            case "down":
                second.down()
                first.down()
            case "why-not" if reason := why_not():
                print(reason)
                return 1
    except NodeError as error:
        print(f"node: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
