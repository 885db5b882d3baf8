# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The verbs a person types; errors become one sentence and an exit code here."""

from __future__ import annotations

import errno
import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import Final

from ascendop import __version__
from ascendop.app.causes import primary
from ascendop.app.preflight import UnusableClusterError
from ascendop.cli import local, manifests, mpi_operator, render, run, simulate
from ascendop.cli.parser import USAGE, Parser
from ascendop.errors import NotLeaderError, UsageError
from ascendop.informer.informer import NotSyncedError
from ascendop.kube.errors import ApiError, TransportError

OUT_OF_REACH: Final = 3
LEASE_LOST: Final = 4
INTERRUPTED: Final = 130

_ENDS: Final = """exit codes:
  0 ok   1 a bug   2 wrong flags, files or settings   3 the cluster is out of reach or forbids it
  4 another replica leads now   5 a job failed   6 a job has not finished (local, simulate)
"""


def parser() -> ArgumentParser:
    """Every verb with its flags."""
    top: ArgumentParser = Parser(
        prog="ascendop",
        description="One operator for distributed training on Kubernetes.",
        epilog=_ENDS,
        formatter_class=RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"ascendop {__version__}")
    sub = top.add_subparsers(metavar="VERB", required=True)
    for verb in (run, mpi_operator, local, simulate, render, manifests):
        verb.add_parser(sub)
    version = sub.add_parser("version", help="print the version")
    version.set_defaults(run=_version)
    return top


def main(argv: Sequence[str]) -> int:
    """Run a verb. Returns the exit code; `--help` and wrong flags raise SystemExit."""
    args = parser().parse_args(argv)
    try:
        code = int(args.run(args))
        sys.stdout.flush()  # here, where a full disk or a reader that has gone can be told
    except BaseExceptionGroup as group:
        return _ended(primary(group))
    except Exception as error:  # noqa: BLE001  the one place where errors become exit codes
        return _ended(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


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
            _forget_output()
            return 0  # whoever read our output has seen enough
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            _forget_output()
            error = UsageError(f"cannot write: {error.strerror}; make room, or write elsewhere")
            code = USAGE
        case _:
            # A bug: whoever mends it needs the traceback.
            raise error
    # Mistakes come a line each; what a server says may be a whole page.
    text = str(error) if code == USAGE else " ".join(str(error).split())
    print(f"ascendop: {text}", file=sys.stderr)
    return code


def _forget_output() -> None:
    """What could not be written would fail once more when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
