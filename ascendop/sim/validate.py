# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The metadata of an object: names, labels, what may not change, and who wrote in between."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ascendop.kube.resource import Object, Resource
from ascendop.sim.answers import Cause, bad_request, conflict, invalid, stale
from ascendop.sim.registry import Served
from ascendop.sim.storage import Row

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_PATH_SEGMENT = re.compile(r"(?!\.{1,2}$)[^/%]+")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_BYTES = 63
_NAME_BYTES = 253
_ANNOTATIONS_BYTES = 256 * 1024

_SUBDOMAIN_SAYS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    r"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_SAYS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SERVICE_SAYS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_VALUE_SAYS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_NAME_RULES = {
    "services": (_SERVICE, _LABEL_BYTES, _SERVICE_SAYS),
    "namespaces": (_LABEL, _LABEL_BYTES, _LABEL_SAYS),
    **{
        f"{plural}.rbac.authorization.k8s.io": (_PATH_SEGMENT, 2048, "may not contain '/' or '%'")
        for plural in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
    },
}
_DEFAULT_RULE = (_SUBDOMAIN, _NAME_BYTES, _SUBDOMAIN_SAYS)


def metadata_faults(obj: Object, served: Served) -> Iterator[Cause]:
    """Of a new object: name, labels, annotations, owners."""
    meta = obj["metadata"]
    name = meta.get("name", "")
    if not name:
        yield Cause(
            "FieldValueRequired",
            "Required value: name or generateName is required",
            "metadata.name",
        )
    else:
        yield from _name_faults(name, served)
    yield from _label_faults(meta.get("labels") or {})
    yield from _annotation_faults(meta.get("annotations") or {})
    yield from _owner_faults(meta.get("ownerReferences") or ())


def change_faults(old: Object, new: Object) -> Iterator[Cause]:
    """Of a changed object's metadata."""
    meta, was = new["metadata"], old["metadata"]
    yield from _label_faults(meta.get("labels") or {})
    yield from _annotation_faults(meta.get("annotations") or {})
    yield from _owner_faults(meta.get("ownerReferences") or ())
    if "deletionTimestamp" in was:
        known = was.get("finalizers") or []
        added = [f for f in meta.get("finalizers") or () if f not in known]
        if added:
            told = ", ".join(f'"{finalizer}"' for finalizer in added)
            yield Cause(
                "FieldValueForbidden",
                "Forbidden: no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{told}}}",
                "metadata.finalizers",
            )


def check_identity(obj: Object, served: Served, namespace: str | None, name: str) -> None:
    """Raises RefusedError(400) when the body is another object than the path says."""
    resource = served.resource
    said = (obj.get("apiVersion") or resource.api_version, obj.get("kind") or resource.kind)
    if said != (resource.api_version, resource.kind):
        raise bad_request(
            f'{said[1]} in version "{said[0]}" cannot be handled as a {resource.kind}: '
            f"the API version in the data ({said[0]}) does not match the expected API version "
            f"({resource.api_version})"
        )
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        meta = obj["metadata"] = {}
    obj["apiVersion"], obj["kind"] = said
    if resource.namespaced and (meta.get("namespace") or namespace) != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if name and (meta.get("name") or name) != name:
        raise bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
        )


def check_version(
    meta: dict[str, Any], row: Row, resource: Resource, *, patched: bool = False
) -> None:
    """Raises RefusedError(409) when the writer has not seen the object's last state.

    patched:  another uid is then a field that cannot change (422), and not a condition.
    """
    uid = meta.get("uid")
    if uid and uid != row.uid and patched:
        says = f'Invalid value: "{uid}": field is immutable'
        cause = Cause("FieldValueInvalid", says, "metadata.uid")
        raise invalid(resource, row.key[1], [cause])
    if uid and uid != row.uid:
        raise conflict(
            resource,
            row.key[1],
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {row.uid}",
        )
    version = meta.get("resourceVersion")
    if version and version != str(row.revision):
        raise stale(resource, row.key[1])


def _name_faults(name: str, served: Served) -> Iterator[Cause]:
    pattern, limit_bytes, says = _NAME_RULES.get(served.table, _DEFAULT_RULE)
    if not pattern.fullmatch(name):
        yield Cause("FieldValueInvalid", f'Invalid value: "{name}": {says}', "metadata.name")
    if len(name) > limit_bytes:
        yield Cause(
            "FieldValueInvalid",
            f'Invalid value: "{name}": must be no more than {limit_bytes} bytes',
            "metadata.name",
        )


def _label_faults(labels: dict[str, Any]) -> Iterator[Cause]:
    for key, value in labels.items():
        yield from _key_faults(key, "metadata.labels")
        if len(value) > _LABEL_BYTES:
            says = f'Invalid value: "{value}": must be no more than {_LABEL_BYTES} bytes'
            yield Cause("FieldValueInvalid", says, "metadata.labels")
        if not _VALUE.fullmatch(value):
            says = f'Invalid value: "{value}": {_VALUE_SAYS}'
            yield Cause("FieldValueInvalid", says, "metadata.labels")


def _annotation_faults(annotations: dict[str, Any]) -> Iterator[Cause]:
    for key in annotations:
        yield from _key_faults(key.lower(), "metadata.annotations")
    if sum(len(k) + len(v) for k, v in annotations.items()) > _ANNOTATIONS_BYTES:
        yield Cause(
            "FieldValueTooLong",
            f"Too long: may not be more than {_ANNOTATIONS_BYTES} bytes",
            "metadata.annotations",
        )


def _key_faults(key: str, path: str) -> Iterator[Cause]:
    prefix, slash, name = key.rpartition("/")
    if len(name) > _LABEL_BYTES or not _QUALIFIED.fullmatch(name):
        yield Cause(
            "FieldValueInvalid",
            f'Invalid value: "{key}": name part must consist of alphanumeric characters, '
            "'-', '_' or '.', and must start and end with an alphanumeric character, and be no "
            f"more than {_LABEL_BYTES} bytes",
            path,
        )
    if slash and not _SUBDOMAIN.fullmatch(prefix):
        yield Cause(
            "FieldValueInvalid", f'Invalid value: "{key}": prefix part {_SUBDOMAIN_SAYS}', path
        )


def _owner_faults(owners: Any) -> Iterator[Cause]:
    controllers = 0
    for index, owner in enumerate(owners):
        for part in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(part):
                yield Cause(
                    "FieldValueInvalid",
                    f'Invalid value: "": {part} must not be empty',
                    f"metadata.ownerReferences[{index}].{part}",
                )
        controllers += bool(owner.get("controller"))
    if controllers > 1:
        yield Cause(
            "FieldValueInvalid",
            "Invalid value: only one reference can have Controller set to true",
            "metadata.ownerReferences",
        )
