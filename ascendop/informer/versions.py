# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which of two resourceVersions is newer, where that can be told."""

from __future__ import annotations

UNKNOWN = None
"""The answer where a server does not count upwards; each rule names its safe branch for it."""


def number_of(version: str) -> int | None:
    """The version as a number, comparable within one resource only; UNKNOWN if it is none.

    Source: Kubernetes 1.35 documents `[1-9][0-9]*`, comparable within one resource; every server on
            etcd did so before.
    """
    if version.isdecimal() and version.isascii() and version[0] != "0":
        return int(version)
    return UNKNOWN


def at_least(version: str, other: str) -> bool | None:
    """Whether `version` is `other` or newer; UNKNOWN if either is no number and they differ."""
    if version == other:
        return True
    mine, its = number_of(version), number_of(other)
    return UNKNOWN if mine is None or its is None else mine >= its
