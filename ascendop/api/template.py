# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How much of a pod template the schemas know: what other parts of Kubernetes rely on, and no more.

Everything else is kept as written and judged by the API server that makes the pod, so a template
may use fields that are newer than this operator.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import WithJsonSchema

from ascendop.api.model import Object

_OPEN: Final = {"x-kubernetes-preserve-unknown-fields": True}


def _open(description: str, **known: Any) -> Object:  # noqa: ANN401  JSON Schema
    return {"description": description, "type": "object", **known, **_OPEN}


_PORT: Final = _open(
    "A port; every field of Kubernetes is accepted.",
    properties={
        "protocol": {"description": "TCP, UDP or SCTP.", "type": "string", "default": "TCP"}
    },
)
_CONTAINER: Final = _open(
    "A container; every field of Kubernetes is accepted.",
    required=["name"],
    properties={
        "name": {"description": "Unique within the pod.", "type": "string"},
        "ports": {
            "description": "Ports that the container listens on.",
            "type": "array",
            "items": _PORT,
        },
    },
)


def _containers(description: str) -> Object:
    return {"description": description, "type": "array", "items": _CONTAINER}


PodTemplate = Annotated[
    Object,
    WithJsonSchema(
        _open(
            "A pod template.",
            properties={
                "metadata": _open("Labels, annotations and finalizers of the pods."),
                "spec": _open(
                    "Spec of the pods; every field of Kubernetes is accepted.",
                    required=["containers"],
                    properties={
                        "containers": _containers(
                            "Containers; one has the name the kind asks for."
                        ),
                        "initContainers": _containers("Containers that run before the others."),
                    },
                ),
            },
        )
    ),
]
"""A pod template: open, but its containers have names, and their ports a protocol."""
