# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The PodGroup of scheduler-plugins, as its CRD defines it: for servers without that scheduler."""

from __future__ import annotations

from ascendop.kube.resource import COSCHEDULING_GROUPS as GROUPS
from ascendop.kube.resource import CRDS, Object


def build_definition() -> Object:
    """PodGroup of scheduling.x-k8s.io/v1alpha1.

    Source:  fields and bounds of scheduler-plugins 0.34.
    """
    amount = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    }
    count = {"type": "integer", "format": "int32"}
    spec = {
        "minMember": {**count, "minimum": 1},
        "minResources": {"type": "object", "additionalProperties": amount},
        "scheduleTimeoutSeconds": count,
    }
    status = {
        "phase": {"type": "string"},
        "occupiedBy": {"type": "string"},
        "scheduleStartTime": {"type": "string", "format": "date-time"},
        **dict.fromkeys(("running", "succeeded", "failed"), count),
    }
    parts = {"spec": spec, "status": status}
    schema = {
        "type": "object",
        "properties": {
            name: {"type": "object", "properties": fields} for name, fields in parts.items()
        },
    }
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {
            "name": GROUPS.name,
            # A group below k8s.io is protected: its definitions say who approved of them.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": GROUPS.group,
            "scope": "Namespaced",
            "names": {
                "kind": GROUPS.kind,
                "listKind": f"{GROUPS.kind}List",
                "plural": GROUPS.plural,
                "singular": GROUPS.kind.lower(),
                "shortNames": ["pg", "pgs"],
            },
            "versions": [
                {
                    "name": GROUPS.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }
