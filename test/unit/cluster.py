# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the cluster becomes: snapshots after a plan, or after something has happened to pods."""

import copy
from dataclasses import replace

from ascendop.apply.plan import Apply, Create, Delete, Patch
from ascendop.builder.labels import POD_ANNOTATIONS_READ
from ascendop.kube.resource import POD_GROUPS, PODS, SERVICES
from ascendop.reconciler.status import merge_patch

from . import make  # noqa: TID252  the standard library has a package called test


def after(seen, plan, *, phase="Pending", now=None):
    """The snapshot when a plan has been executed and every watch has caught up.

    New pods are in `phase`; a new PodGroup is Pending, as Volcano makes it.
    """
    for write in make.writes(plan):
        match write:
            case Delete():
                seen = _without(seen, write)
            case Create(resource=resource) if resource == PODS:
                seen = replace(seen, pods=_sorted([*seen.pods, _pod_of(seen, write, phase)]))
            case Create(resource=resource) if resource == SERVICES:
                seen = replace(seen, services=(*seen.services, make.service(write.name)))
            case Apply(object=obj):
                was = seen.group.phase if seen.group else "Pending"
                seen = replace(seen, group=make.group(was, like=obj))
            case Patch(resource=resource) if resource == PODS:
                seen = marked(seen, write.name, **write.body["metadata"]["annotations"])
            case Patch(body=body):
                seen = replace(seen, row=_patched(seen.row, body))
    conclusion = make.concluded(plan)
    status = seen.status if conclusion is None else conclusion.status
    return replace(seen, status=copy.deepcopy(status), now=now or seen.now)


def gone(seen, *names):
    """Somebody has deleted these pods."""
    return replace(seen, pods=tuple(pod for pod in seen.pods if pod.name not in names))


def turned(seen, phase, *names, **fields):
    """These pods, or all, are in another phase."""
    return replace(
        seen,
        pods=tuple(
            changed(pod, phase=phase, **fields) if not names or pod.name in names else pod
            for pod in seen.pods
        ),
    )


def marked(seen, name, **annotations):
    """Somebody has written annotations onto a pod; None takes one away."""

    def written(pod):
        found = dict(pod.annotations) | annotations
        left = tuple((key, value) for key, value in found.items() if value is not None)
        return changed(pod, annotations=left)

    pods = tuple(written(pod) if pod.name == name else pod for pod in seen.pods)
    return replace(seen, pods=pods)


def admitted(seen, phase="Inqueue"):
    """The scheduler has let the gang in."""
    return replace(seen, group=changed(seen.group, phase=phase)) if seen.group else seen


def changed(found, **fields):
    """A view with other values."""
    return type(found)(**{n: getattr(found, n) for n in found.__struct_fields__} | fields)


def is_quiet(seen, plan):
    """Whether a plan would change nothing."""
    conclusion = make.concluded(plan)
    told = conclusion is not None and (
        merge_patch(seen.status, conclusion.status) or conclusion.events
    )
    return not make.writes(plan) and not told


def _without(seen, write):
    if write.resource == PODS:
        return replace(seen, pods=tuple(p for p in seen.pods if p.uid != write.uid))
    if write.resource == SERVICES:
        return replace(seen, services=tuple(s for s in seen.services if s.uid != write.uid))
    return replace(seen, group=None) if write.resource == POD_GROUPS else seen


def _pod_of(seen, write, phase):
    labels = write.object["metadata"]["labels"]
    version = int(labels.get("version", -1))
    annotations = write.object["metadata"].get("annotations", {}).items()
    return make.pod(
        labels["training.kubeflow.org/replica-type"],
        int(labels["training.kubeflow.org/replica-index"]),
        phase,
        job=seen.row.name,
        attempt=version,
        name=write.name,
        uid=f"uid-{write.name}-{version}",
        annotations=tuple((k, v) for k, v in annotations if k in POD_ANNOTATIONS_READ),
    )


def _sorted(pods):
    return tuple(sorted(pods, key=lambda pod: (pod.role, pod.index, pod.name)))


def _patched(row, body):
    annotations = dict(row.annotations) | body["metadata"]["annotations"]
    return changed(row, annotations=tuple(annotations.items()))
