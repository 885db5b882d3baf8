# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A recorded case, read from its files."""

# Values are whatever YAML and JSON hold, and codes are HTTP's: types and names would hide them.

from __future__ import annotations

import dataclasses
import pathlib

import yaml

Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclasses.dataclass
class Case:
    id: str
    job: dict
    objects: list[dict]
    steps: list[dict]
    want: dict
    differs: list[dict]

    @property
    def quiet(self) -> float:
        return 3.0 if self.id.startswith(("ascendjob/", "decorated/")) else 2.0

    @property
    def restarts(self) -> bool:
        return any("restartOperator" in step for step in self.steps)


def load_cases(folders: list[pathlib.Path]) -> list[Case]:
    def read(path: pathlib.Path) -> list:
        return (
            [doc for doc in yaml.load_all(path.read_text(), Loader) if doc] if path.exists() else []
        )

    cases = []
    for want in sorted(path for folder in folders for path in folder.rglob("*.want.yaml")):
        stem = want.name.removesuffix(".want.yaml")
        files = ("job", "objects", "steps", "differs")
        part = {kind: read(want.with_name(f"{stem}.{kind}.yaml")) for kind in files}
        steps, differs = ((part[kind] or [[]])[0] for kind in ("steps", "differs"))
        cases.append(
            Case(
                f"{want.parent.name}/{stem}",
                part["job"][0],
                part["objects"],
                steps,
                read(want)[0],
                differs,
            )
        )
    return cases
