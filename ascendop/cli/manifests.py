# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""`ascendop manifests`: CRDs, rights, Deployment and reference pages, from the models."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Mapping
from pathlib import Path

from ascendop.errors import UsageError
from ascendop.kinds import load_kinds
from ascendop.schema.generated import NOTICE
from ascendop.schema.manifests import manifests
from ascendop.schema.reference import reference


def add_parser(sub: _SubParsersAction[ArgumentParser]) -> None:
    """The verb and its flags."""
    parser = sub.add_parser("manifests", help="write CRDs, RBAC, Deployment and reference pages")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write the YAML files below DIR")
    parser.add_argument("--docs", type=Path, metavar="DIR", help="write the reference below DIR")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Write what was asked for; without a folder, print the YAML.

    Raises:  UsageError, when a folder cannot be written.
    """
    kinds = load_kinds()
    if args.out is None and args.docs is None:
        sys.stdout.writelines(manifests(kinds).values())
    if args.out is not None:
        _write(args.out, manifests(kinds), "*.yaml")
    if args.docs is not None:
        _write(args.docs, reference(kinds), "*.md")
    return 0


def _write(folder: Path, files: Mapping[str, str], ours: str) -> None:
    """Write the files and take away what we wrote before and no longer write."""
    try:
        for path, text in files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        for file in sorted(folder.rglob(ours)):
            stale = str(file.relative_to(folder)) not in files
            if stale and NOTICE in file.read_text(encoding="utf-8")[:400]:
                file.unlink()
    except OSError as error:
        raise UsageError(
            f"cannot write {error.filename or folder}: {error.strerror}; name another folder"
        ) from error
