# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""`python -m ascendop`."""

from ascendop.cli.main import entry

if __name__ == "__main__":
    entry()
