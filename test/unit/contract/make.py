# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Objects for the beliefs: only what matters is said."""


def meta(namespace, name, **more):
    return {"namespace": namespace, "name": name, **more}


def pod(namespace, name="p", *, labels=None, owners=None, finalizers=None, **spec):
    more = {"labels": labels, "ownerReferences": owners, "finalizers": finalizers}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(namespace, name, **{k: v for k, v in more.items() if v}),
        "spec": {"containers": [{"name": "main", "image": "image:1"}], **spec},
    }


def config(namespace, name="c", *, data=None, labels=None, owners=None, finalizers=None):
    more = {"labels": labels, "ownerReferences": owners, "finalizers": finalizers}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta(namespace, name, **{k: v for k, v in more.items() if v}),
        "data": data or {},
    }


def widget(namespace, name="w", *, status=None, **spec):
    made = {
        "apiVersion": "contract.example.com/v1",
        "kind": "Widget",
        "metadata": meta(namespace, name),
        "spec": {"size": "S", **spec},
    }
    return made if status is None else {**made, "status": status}


def owner(obj, *, api_version="v1", kind="ConfigMap", **more):
    """A reference to an object that exists."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        **more,
    }


def causes(error):
    """Reason and path of every cause of a Status."""
    return [(cause["reason"], cause.get("field", "")) for cause in error.details["causes"]]
