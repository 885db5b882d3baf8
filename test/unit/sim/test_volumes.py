# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Volumes on disk, and the environment, as a kubelet makes them."""

from pathlib import Path

import pytest

from ascendop.sim.environment import build_argv, build_env, expand
from ascendop.sim.fields import field_value, resource_value
from ascendop.sim.volumes import (
    MissingError,
    UnsupportedError,
    Volumes,
    write_atomically,
)

POD = {
    "metadata": {
        "name": "p",
        "namespace": "ml",
        "uid": "u",
        "labels": {"a": "1", "b": 'x"y'},
        "annotations": {"k/l": "v"},
    },
    "spec": {
        "nodeName": "node-1",
        "containers": [
            {
                "name": "c",
                "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}},
            }
        ],
    },
}
OBJECTS = {
    ("ConfigMap", "ml", "cm"): {
        "kind": "ConfigMap",
        "data": {"one": "1", "two": "2"},
        "binaryData": {"raw": "AAE="},
    },
    ("Secret", "ml", "s"): {"kind": "Secret", "data": {"key": "c2VjcmV0"}},
}


def lookup(*key):
    return OBJECTS.get(key)


def build(tmp_path, volume):
    pod = {**POD, "spec": {**POD["spec"], "volumes": [{"name": "v", **volume}]}}
    volumes = Volumes(tmp_path / "volumes", host=tmp_path / "host", shared=tmp_path)
    found = volumes.build(pod, lookup)
    return found["v"]


def content(folder):
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if not path.name.startswith("..")
    }


def test_a_configmap_has_all_its_keys_or_the_items_asked_for(tmp_path):
    whole = build(tmp_path / "a", {"configMap": {"name": "cm"}})
    assert content(whole) == {"one": b"1", "two": b"2", "raw": b"\x00\x01"}
    items = [{"key": "one", "path": "deep/first", "mode": 0o400}]
    some = build(tmp_path / "b", {"configMap": {"name": "cm", "items": items}})
    assert (some / "deep/first").read_bytes() == b"1"
    assert (some / "deep/first").stat().st_mode & 0o777 == 0o400


def test_a_projected_volume_has_all_its_sources(tmp_path):
    sources = [
        {"configMap": {"name": "cm", "items": [{"key": "one", "path": "one"}]}},
        {"secret": {"name": "s"}},
        {
            "downwardAPI": {
                "items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
            }
        },
        {"serviceAccountToken": {"path": "token"}},
    ]
    found = content(build(tmp_path, {"projected": {"sources": sources}}))
    assert found == {"one": b"1", "key": b"secret", "labels": b'a="1"\nb="x\\"y"', "token": b""}


@pytest.mark.parametrize(
    "volume",
    [
        {"configMap": {"name": "no"}},
        {"secret": {"secretName": "no"}},
        {"configMap": {"name": "cm", "items": [{"key": "no", "path": "x"}]}},
    ],
)
def test_what_is_missing_is_waited_for_unless_it_is_optional(tmp_path, volume):
    with pytest.raises(MissingError):
        build(tmp_path, volume)
    [source] = volume.values()
    kind = next(iter(volume))
    assert content(build(tmp_path, {kind: {**source, "optional": True}})) == {}


def test_another_kind_of_volume_is_refused_by_name(tmp_path):
    with pytest.raises(UnsupportedError, match="'v': a csi cannot be had"):
        build(tmp_path, {"csi": {}})


@pytest.mark.parametrize(
    ("kind", "is_file"), [("", False), ("DirectoryOrCreate", False), ("FileOrCreate", True)]
)
def test_a_hostpath_is_made_below_the_scratch_folder(tmp_path, kind, is_file):
    path = build(tmp_path, {"hostPath": {"path": "/data/../x", "type": kind}})
    assert path == tmp_path / "host/data/x" and path.is_file() is is_file


def test_a_hostpath_of_the_machine_itself_has_to_be_there(tmp_path):
    pod = {**POD, "spec": {"volumes": [{"name": "v", "hostPath": {"path": "", "type": ""}}]}}
    source = pod["spec"]["volumes"][0]["hostPath"]
    volumes = Volumes(tmp_path / "v", host=Path("/"), shared=tmp_path)
    source |= {"path": str(tmp_path / "there"), "type": "Directory"}
    with pytest.raises(MissingError, match="is not there"):
        volumes.build(pod, lookup)
    (tmp_path / "there").mkdir()
    assert volumes.build(pod, lookup)["v"] == tmp_path / "there"


def test_claims_and_nfs_are_folders_that_pods_share(tmp_path):
    claim = build(tmp_path, {"persistentVolumeClaim": {"claimName": "c"}})
    assert claim == tmp_path / "claims/ml/c" and claim.is_dir()
    nfs = build(tmp_path, {"nfs": {"server": "host", "path": "/a/b"}})
    assert nfs == tmp_path / "nfs/host/a/b" and nfs.is_dir()


def test_files_change_all_at_once_and_only_when_they_differ(tmp_path):
    assert write_atomically(tmp_path, {"a": (b"1", 0o644), "b": (b"1", 0o644)})
    before = (tmp_path / "..data").readlink()
    assert not write_atomically(tmp_path, {"a": (b"1", 0o644), "b": (b"1", 0o644)})
    assert (tmp_path / "..data").readlink() == before
    assert write_atomically(tmp_path, {"a": (b"2", 0o644), "c": (b"2", 0o644)})
    assert content(tmp_path) == {"a": b"2", "c": b"2"}
    assert not (tmp_path / before).exists()


def test_a_reader_never_sees_half_of_a_change(tmp_path):
    write_atomically(tmp_path, {"a": (b"1", 0o644), "b": (b"1", 0o644)})
    opened = (tmp_path / "..data").resolve()
    write_atomically(tmp_path, {"a": (b"2", 0o644), "b": (b"2", 0o644)})
    now = (tmp_path / "..data").resolve()
    assert now != opened
    assert {(now / name).read_bytes() for name in ("a", "b")} == {b"2"}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("$(A)", "1"),
        ("$(A)$(A)x", "11x"),
        ("$(NO)", "$(NO)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $(A", "$A ${A} $(A"),
    ],
)
def test_references_are_expanded_as_in_a_kubelet(text, want):
    assert expand(text, {"A": "1"}) == want


def env_of(**container):
    return build_env(POD, {"name": "c", **container}, lookup, {"status.podIP": "10.0.0.1"})


def test_later_variables_see_and_replace_earlier_ones():
    env = env_of(
        envFrom=[{"prefix": "P_", "configMapRef": {"name": "cm"}}],
        env=[
            {"name": "A", "value": "$(P_one)"},
            {"name": "P_two", "value": "$(A)$(B)"},
            {"name": "B", "value": ""},
        ],
    )
    assert env["A"] == "1" and env["P_two"] == "1$(B)" and env["B"] == ""


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "p"),
        ({"fieldRef": {"fieldPath": "metadata.labels['a']"}}, "1"),
        ({"fieldRef": {"fieldPath": "metadata.annotations['k/l']"}}, "v"),
        ({"fieldRef": {"fieldPath": "metadata.annotations['no']"}}, ""),
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "node-1"),
        ({"fieldRef": {"fieldPath": "status.podIP"}}, "10.0.0.1"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "2"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}, "1500"),
        ({"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}}, "1024"),
        ({"resourceFieldRef": {"resource": "limits.nothing"}}, "0"),
        ({"configMapKeyRef": {"name": "cm", "key": "one"}}, "1"),
        ({"secretKeyRef": {"name": "s", "key": "key"}}, "secret"),
    ],
)
def test_a_value_comes_from_where_it_is_said(source, want):
    assert env_of(env=[{"name": "X", "valueFrom": source}]) == {"X": want}


@pytest.mark.parametrize("ref", [{"name": "no", "key": "k"}, {"name": "cm", "key": "no"}])
def test_a_missing_key_is_waited_for_or_left_out_when_optional(ref):
    with pytest.raises(MissingError):
        env_of(env=[{"name": "X", "valueFrom": {"configMapKeyRef": ref}}])
    optional = {"configMapKeyRef": {**ref, "optional": True}}
    assert env_of(env=[{"name": "X", "valueFrom": optional}]) == {}


def test_arguments_follow_the_command_and_alone_are_none():
    assert build_argv({"command": ["a"], "args": ["$(X)"]}, {"X": "1"}) == ["a", "1"]
    assert build_argv({"args": ["a"]}, {}) == []


def test_a_field_that_is_not_there_is_empty():
    assert field_value(POD, "spec.serviceAccountName", {}) == ""
    assert resource_value(POD, {"containerName": "c", "resource": "limits.cpu"}, "") == "2"
