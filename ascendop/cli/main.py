# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The verbs a person types; errors become one sentence and an exit code here."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import Final

from ascendop import __version__
from ascendop.app.causes import primary
from ascendop.app.preflight import UnusableClusterError
from ascendop.cli import local, manifests, render, run, simulate
from ascendop.errors import NotLeaderError, UsageError
from ascendop.informer.informer import NotSyncedError
from ascendop.kube.errors import ApiError, TransportError

BUG: Final = 1
USAGE: Final = 2
OUT_OF_REACH: Final = 3
LEASE_LOST: Final = 4
INTERRUPTED: Final = 130

_ENDS: Final = """exit codes:
  0 ok   1 a bug   2 wrong flags, files or settings   3 the cluster is out of reach or forbids it
  4 another replica leads now   5 a job failed   6 a job has not finished (local, simulate)
"""


def parser() -> ArgumentParser:
    """Every verb with its flags."""
    top = ArgumentParser(
        prog="ascendop",
        description="One operator for distributed training on Kubernetes.",
        epilog=_ENDS,
        formatter_class=RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"ascendop {__version__}")
    sub = top.add_subparsers(metavar="VERB", required=True)
    for verb in (run, local, simulate, render, manifests):
        verb.add_parser(sub)
    version = sub.add_parser("version", help="print the version")
    version.set_defaults(run=_version)
    return top


def main(argv: Sequence[str]) -> int:
    """Run a verb. Returns the exit code; `--help` and wrong flags raise SystemExit."""
    args = parser().parse_args(argv)
    try:
        return int(args.run(args))
    except BaseExceptionGroup as group:
        return _ended(primary(group))
    except Exception as error:  # noqa: BLE001  the one place where errors become exit codes
        return _ended(error)
    except KeyboardInterrupt:
        return INTERRUPTED


def entry() -> None:
    """The console script."""
    sys.exit(main(sys.argv[1:]))


def _version(_args: object) -> int:
    print(f"ascendop {__version__}")
    return 0


def _ended(error: BaseException) -> int:
    match error:
        case KeyboardInterrupt():
            return INTERRUPTED
        case UsageError():
            code = USAGE
        case ApiError() | TransportError() | UnusableClusterError() | NotSyncedError():
            code = OUT_OF_REACH
        case NotLeaderError():
            code = LEASE_LOST
        case BrokenPipeError():
            return 0  # whoever read our output has seen enough
        case _:
            # A bug: whoever mends it needs the traceback.
            raise error
    print(f"ascendop: {error}", file=sys.stderr)
    return code
