# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Files of YAML become objects that know where they stand, so that a mistake can be pointed at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

import yaml

from ascendop.api.model import Object
from ascendop.cli.unsayable import shown, unsayable
from ascendop.errors import UsageError

STDIN: Final = "-"
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.:]*[A-Za-z0-9])?")
"""Of any object: what else there is would change the address that we write to."""
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_TAB: Final = r"found character '\t'"


@dataclass(frozen=True, slots=True)
class Located:
    """An object, and the place it was read from."""

    object: Object
    file: str
    document: int
    """From 1, as a person counts the parts between lines of three dashes; empty ones count."""
    item: int = 0
    """From 1 within a List; 0 outside of one."""

    def __str__(self) -> str:
        item = f", item {self.item}" if self.item else ""
        return f"{self.file}, document {self.document}{item}"

    @property
    def kind(self) -> str:
        return str(self.object["kind"])

    @property
    def group(self) -> str:
        group, slash, _ = str(self.object["apiVersion"]).partition("/")
        return group if slash else ""


def load_objects(paths: Sequence[str], stdin: TextIO) -> list[Located]:
    """All objects of all files, in their order; Lists are taken apart.

    paths:   file names; `-` is `stdin`, once.
    Raises:  UsageError, with a line for every mistake in any of the files.
    """
    found: list[Located] = []
    mistakes: list[str] = []
    if paths.count(STDIN) > 1:
        raise UsageError("- stands for standard input and can be named only once; name it once")
    for path in paths:
        try:
            for located in _objects(path, stdin):
                wrong = list(_mistakes(located))
                mistakes += wrong
                if not wrong:
                    found.append(located)
        except UsageError as error:
            mistakes.append(str(error))
    if mistakes:
        raise UsageError("\n".join(mistakes))
    if not found:
        names = ", ".join(paths)
        raise UsageError(f"{names}: there is no object; write apiVersion, kind, metadata and spec")
    return found


def _objects(path: str, stdin: TextIO) -> Iterator[Located]:
    name = "standard input" if path == STDIN else path
    try:
        loader = _Loader(_read(path, stdin))
    except yaml.reader.ReaderError as error:
        raise UsageError(f"{name}: holds a character that YAML forbids; remove it") from error
    document = 0
    while True:
        document += 1
        try:
            if not loader.check_data():  # type: ignore[no-untyped-call]
                return
            found = loader.get_data()
        except yaml.MarkedYAMLError as error:
            raise UsageError(f"{name}, document {document}{_why(error)}") from error
        except RecursionError as error:
            text = f"{name}, document {document}: is nested too deeply; make it flatter"
            raise UsageError(text) from error
        yield from _parts(Located(found, name, document))


def _why(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    line = f", line {mark.line + 1}" if mark else ""
    problem = error.problem or error.context or "nothing that can be read"
    if problem.startswith(_TAB):
        return f"{line}: there is a tab; indent with spaces"
    return f"{line}: is no YAML: {problem}; correct it"


def _read(path: str, stdin: TextIO) -> str:
    try:
        return stdin.read() if path == STDIN else Path(path).read_text(encoding="utf-8")
    except IsADirectoryError as error:
        raise UsageError(f"{path}: is a directory; name the files in it") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; name a file that can be read") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 at byte {error.start}; save it as UTF-8") from error


def _parts(whole: Located) -> Iterator[Located]:
    """Items of a List each for itself; an empty document is nothing."""
    found: object = whole.object
    if found is None:
        return
    if isinstance(found, dict) and found.get("kind") == "List":
        items = found.get("items") or ()
        if not isinstance(items, list):
            raise UsageError(f"{whole}: items: is {shown(items)}; write a list of objects")
        for number, item in enumerate(items, start=1):
            yield Located(item, whole.file, whole.document, number)
        return
    yield whole


def _mistakes(found: Located) -> Iterator[str]:
    """What keeps it from being an object at all."""
    obj: object = found.object
    if not isinstance(obj, dict):
        yield f"{found}: is {shown(obj)}; write an object with apiVersion, kind and metadata"
        return
    try:
        strange = [f"{found}: {text}" for text in unsayable(obj)]
    except RecursionError:
        strange = [f"{found}: is nested too deeply; make it flatter"]
    yield from strange or _unnamed(found, obj)


def _unnamed(found: Located, obj: Object) -> Iterator[str]:
    """What is missing of the fields that every object has."""
    for field in ("apiVersion", "kind"):
        if not isinstance(obj.get(field), str) or not obj[field]:
            yield f"{found}: {field}: is {shown(obj.get(field))}; write the {field} of the object"
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        yield f"{found}: metadata.name: is missing or no text; give the object a name"
        return
    if not _NAME.fullmatch(metadata["name"]):
        yield (
            f"{found}: metadata.name: is {shown(metadata['name'])}, and no name; "
            "write lower case letters, digits and dashes"
        )
    namespace = metadata.get("namespace")
    if namespace is not None and not is_namespace(namespace):
        yield f"{found}: metadata.namespace: is {shown(namespace)}; write a name such as ml-team"
    for field in ("labels", "annotations"):
        yield from _texts(found, f"metadata.{field}", metadata.get(field))


def is_namespace(name: object) -> bool:
    """Whether a namespace could be called that."""
    return isinstance(name, str) and _LABEL.fullmatch(name) is not None


def _texts(found: Located, path: str, pairs: object) -> Iterator[str]:
    if pairs is None:
        return
    if not isinstance(pairs, dict):
        yield f"{found}: {path}: is {shown(pairs)}; write keys with texts"
        return
    for key, value in pairs.items():
        if not isinstance(value, str):
            yield f"{found}: {path}.{key}: is {shown(value)}; write it in quotes"


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: no dates, no numbers to base 60, no key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002  theirs
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key in seen and key != "<<":
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key} is there twice", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_TAG: Final = "tag:yaml.org,2002:"
_INT: Final = re.compile(r"[-+]?(0b[01_]+|0[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
_FLOAT: Final = re.compile(
    r"([-+]?([0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE][-+][0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"
)
_REPLACED: Final = {f"{_TAG}int", f"{_TAG}float", f"{_TAG}timestamp"}

_Loader.yaml_implicit_resolvers = {
    first: [(tag, shape) for tag, shape in found if tag not in _REPLACED]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(f"{_TAG}int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+0123456789."))
