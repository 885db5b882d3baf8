# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A pod's volumes as folders of this machine, kept up to date as a kubelet keeps them."""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ascendop.errors import AscendopError
from ascendop.kube.resource import Object
from ascendop.sim.fields import field_value, resource_value

Lookup = Callable[[str, str, str], Object | None]
"""Kind (ConfigMap or Secret), namespace, name → the object, or None."""
Files = dict[str, tuple[bytes, int]]
"""Path within the volume → content and mode."""

DEFAULT_MODE: Final = 0o644


class MissingError(AscendopError):
    """Something that the pod names is not there yet; when it comes the pod goes on."""


class UnsupportedError(AscendopError):
    """Something that no process on this machine can be given."""


class Volumes:
    """The volumes of one pod.

    Atomic:   the files of a ConfigMap, Secret, projected or downwardAPI volume change all at once:
              a symlink to the folder that holds them is swapped, as the kubelet's writer does it.
    Scratch:  a hostPath lies below `host`, unless `host` is the root itself.
    """

    def __init__(self, folder: Path, *, host: Path, shared: Path) -> None:
        self._folder = folder
        self._host = host
        self._shared = shared

    def build(self, pod: Object, lookup: Lookup) -> dict[str, Path]:
        """Volume name → folder or file. Raises MissingError, UnsupportedError."""
        return {
            volume["name"]: self._one(pod, volume, lookup)
            for volume in pod["spec"].get("volumes") or ()
        }

    def refresh(self, pod: Object, lookup: Lookup) -> None:
        """Bring what has changed; what has vanished meanwhile keeps its last content."""
        for volume in pod["spec"].get("volumes") or ():
            try:
                files = _files(pod, volume, lookup)
            except MissingError:
                continue
            if files is not None:
                write_atomically(self._folder / volume["name"], files)

    def _one(self, pod: Object, volume: Object, lookup: Lookup) -> Path:
        folder = self._folder / str(volume["name"])
        files = _files(pod, volume, lookup)
        if files is not None:
            write_atomically(folder, files)
        elif "hostPath" in volume:
            return self._host_path(volume["hostPath"])
        elif "persistentVolumeClaim" in volume:
            claim = str(volume["persistentVolumeClaim"]["claimName"])
            folder = self._shared / "claims" / str(pod["metadata"]["namespace"]) / claim
        elif "nfs" in volume:
            nfs = volume["nfs"]
            folder = below(self._shared / "nfs" / str(nfs["server"]), nfs["path"])
        elif "emptyDir" not in volume:
            kind = next((key for key in volume if key != "name"), "volume")
            raise UnsupportedError(
                f"volume {volume['name']!r}: a {kind} cannot be had on this machine; "
                "use emptyDir, hostPath, configMap, secret, projected or downwardAPI"
            )
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _host_path(self, source: Object) -> Path:
        path = below(self._host, source["path"])
        kind = str(source.get("type") or "")
        if self._host == Path("/"):
            if kind in {"Directory", "File", "Socket"} and not path.exists():
                raise MissingError(f"hostPath {path} is not there")
            if kind in {"", "Directory", "File", "Socket"} and path.exists():
                return path
        if kind.startswith("File"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        elif not path.exists():
            path.mkdir(parents=True)
        return path


def below(root: Path, path: str) -> Path:
    """The absolute `path`, seen from `root`; .. does not lead out of it."""
    parts = [part for part in PurePosixPath(path).parts if part not in {"/", "..", "."}]
    return root.joinpath(*parts)


def write_atomically(folder: Path, files: Files) -> bool:
    """Whether anything was written: equal content is left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    current = folder / "..data"
    if current.is_symlink() and _read(current) == files:
        return False
    fresh = Path(tempfile.mkdtemp(prefix="..", dir=folder))
    fresh.chmod(0o755)
    for name, (content, mode) in files.items():
        path = fresh / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    old = current.resolve() if current.is_symlink() else None
    swap = folder / "..data_tmp"
    swap.unlink(missing_ok=True)
    swap.symlink_to(fresh.name)
    swap.rename(current)
    _show(folder, {PurePosixPath(name).parts[0] for name in files})
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
    return True


def _show(folder: Path, names: set[str]) -> None:
    """One link for each name at the top, through `..data`."""
    for path in folder.iterdir():
        if not path.name.startswith("..") and path.name not in names:
            path.unlink()
    for name in names:
        if not os.path.lexists(folder / name):
            (folder / name).symlink_to(f"..data/{name}")


def _read(folder: Path) -> Files:
    return {
        str(path.relative_to(folder.resolve())): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in folder.resolve().rglob("*")
        if path.is_file()
    }


# What is in a volume that an API object fills.


def _files(pod: Object, volume: Object, lookup: Lookup) -> Files | None:
    """None for a volume that no API object fills."""
    for kind in ("configMap", "secret", "projected", "downwardAPI"):
        if kind in volume:
            source = volume[kind]
            mode = source.get("defaultMode")
            mode = DEFAULT_MODE if mode is None else mode
            if kind != "projected":
                return _source(pod, kind, source, mode, lookup)
            files: Files = {}
            for part in source.get("sources") or ():
                for name, inner in part.items():
                    files |= _source(pod, name, inner, mode, lookup)
            return files
    return None


def _source(pod: Object, kind: str, source: Object, mode: int, lookup: Lookup) -> Files:
    match kind:
        case "configMap":
            found = _object(pod, "ConfigMap", source.get("name", ""), source, lookup)
            return _items(contents(found), source, mode)
        case "secret":
            name = source.get("secretName") or source.get("name", "")
            found = _object(pod, "Secret", name, source, lookup)
            return _items(contents(found), source, mode)
        case "downwardAPI":
            return {
                item["path"]: (_downward(pod, item), _mode(item, mode))
                for item in source.get("items") or ()
            }
        case "serviceAccountToken":
            # Nobody checks it here; a program that insists on a file finds one.
            return {source["path"]: (b"", mode)}
        case _:
            raise UnsupportedError(f"a projected {kind} cannot be had on this machine")


def _object(pod: Object, kind: str, name: str, source: Object, lookup: Lookup) -> Object:
    found = lookup(kind, pod["metadata"]["namespace"], name)
    if found is None:
        if source.get("optional"):
            return {}
        raise MissingError(f'{kind.lower()} "{name}" not found')
    return found


def contents(obj: Object) -> dict[str, bytes]:
    """Of a ConfigMap or Secret, key by key."""
    if obj.get("kind") == "Secret":
        found = {key: base64.b64decode(text) for key, text in (obj.get("data") or {}).items()}
        return found | {key: text.encode() for key, text in (obj.get("stringData") or {}).items()}
    found = {key: text.encode() for key, text in (obj.get("data") or {}).items()}
    binary: Mapping[str, str] = obj.get("binaryData") or {}
    return found | {key: base64.b64decode(text) for key, text in binary.items()}


def _items(found: dict[str, bytes], source: Object, mode: int) -> Files:
    items: list[dict[str, Any]] | None = source.get("items")
    if not items:
        return {key: (content, mode) for key, content in found.items()}
    files: Files = {}
    for item in items:
        if item["key"] in found:
            files[item["path"]] = (found[item["key"]], _mode(item, mode))
        elif not source.get("optional"):
            raise MissingError(f"references non-existent key: {item['key']}")
    return files


def _mode(item: Object, default: int) -> int:
    mode = item.get("mode")
    return default if mode is None else int(mode)


def _downward(pod: Object, item: Object) -> bytes:
    if "fieldRef" in item:
        return field_value(pod, item["fieldRef"]["fieldPath"], {}).encode()
    return resource_value(pod, item["resourceFieldRef"], "").encode()
