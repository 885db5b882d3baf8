# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The folder is the registry: one file, one job kind."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from ascendop.api.kind import JobKind

AnyKind = JobKind[Any]


def load_kinds() -> Mapping[str, AnyKind]:
    """Every module's KIND by its name, in order of names.

    Raises:  TypeError, when a module has no KIND or two kinds have one name; both are bugs.
    """
    found: dict[str, AnyKind] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        kind = getattr(importlib.import_module(f"{__name__}.{module.name}"), "KIND", None)
        if not isinstance(kind, JobKind):
            raise TypeError(f"{__name__}.{module.name} has no KIND; every file here is a job kind")
        if kind.kind in found:
            raise TypeError(f"{__name__}.{module.name}: {kind.kind} is there already")
        found[kind.kind] = kind
    return dict(sorted(found.items()))
