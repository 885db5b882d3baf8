# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Runs a command that dies with its parent: `tether.py PARENT-PID COMMAND [ARGUMENT ...]`.

For processes of tests: whatever ends the test run, signal 9 included, ends them too. A program and
not a `preexec_fn`, because code between fork and exec is not safe beside threads. The kernel means
the thread that started the child: start children from the main thread.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Become the command. Ends with code 1 when the parent is gone already."""
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it died before the line above could see it
        sys.exit(1)
    os.execvp(command[0], command)


main()
