# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Custom kinds that a gang needs and that are not ours."""

from __future__ import annotations

from importlib.resources import files

import yaml

from ascendop.kube.resource import Object


def volcano_crds() -> list[Object]:
    """PodGroup and Queue."""
    text = files(__name__).joinpath("volcano.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))
