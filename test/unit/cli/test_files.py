# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Files of YAML, and the sentences about those that are none."""

import io
import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ascendop.cli.files import load_objects
from ascendop.errors import UsageError

GOOD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def loaded(text):
    return load_objects(["-"], io.StringIO(text))


def refused(text):
    with pytest.raises(UsageError) as caught:
        loaded(text)
    return str(caught.value).splitlines()


def test_objects_come_in_the_order_of_files_and_documents(tmp_path):
    first, second = tmp_path / "1.yaml", tmp_path / "2.yaml"
    first.write_text(GOOD + "---\n" + GOOD.replace("name: a", "name: b"))
    second.write_text(GOOD.replace("name: a", "name: c"))
    found = load_objects([str(second), str(first)], io.StringIO())
    assert [one.object["metadata"]["name"] for one in found] == ["c", "a", "b"]
    assert [str(one) for one in found] == [
        f"{second}, document 1",
        f"{first}, document 1",
        f"{first}, document 2",
    ]


def test_empty_documents_are_passed_over_and_counted():
    assert [one.document for one in loaded(f"---\n---\n{GOOD}---\n# nothing\n---\n{GOOD}")] == [
        2,
        4,
    ]


def test_items_of_a_list_stand_for_themselves():
    items = [yaml.safe_load(GOOD), yaml.safe_load(GOOD.replace("name: a", "name: b"))]
    found = loaded(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert [(one.object["metadata"]["name"], one.item) for one in found] == [("a", 1), ("b", 2)]
    assert str(found[1]) == "standard input, document 1, item 2"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "a: [",
            "standard input, document 1, line 1: is no YAML: "
            "expected the node content, but found '<stream end>'; correct it",
            id="no YAML",
        ),
        pytest.param(
            GOOD + "---\na: 1\na: 2\n",
            "standard input, document 2, line 6: is no YAML: the key a is there twice; correct it",
            id="a key twice",
        ),
        pytest.param(
            "- 1",
            "standard input, document 1: is a list; "
            "write an object with apiVersion, kind and metadata",
            id="a list",
        ),
        pytest.param(
            GOOD.replace("kind: ConfigMap\n", ""),
            "standard input, document 1: kind: is missing; write the kind of the object",
            id="no kind",
        ),
        pytest.param(
            GOOD.replace("{name: a}", "{}"),
            "standard input, document 1: metadata.name: is missing or no text; "
            "give the object a name",
            id="no name",
        ),
        pytest.param(
            GOOD.replace("{name: a}", "{name: a, labels: {pod-rescheduling: on}}"),
            "standard input, document 1: metadata.labels.pod-rescheduling: is true, a boolean; "
            "write it in quotes",
            id="a label that YAML takes for a boolean",
        ),
        pytest.param(
            GOOD.replace("{name: a}", "{name: a, annotations: {sp-block: 16}}"),
            "standard input, document 1: metadata.annotations.sp-block: is 16, a number; "
            "write it in quotes",
            id="an annotation that is a number",
        ),
        pytest.param(
            "# nothing\n",
            "-: there is no object; write apiVersion, kind, metadata and spec",
            id="nothing at all",
        ),
        pytest.param(
            "a: \x07",
            "standard input: holds a character that YAML forbids; remove it",
            id="a forbidden character",
        ),
    ],
)
def test_a_mistake_is_one_sentence_that_says_where_and_what_to_do(text, want):
    assert refused(text) == [want]


def test_mistakes_of_all_files_are_told_at_once(tmp_path):
    broken, missing = tmp_path / "broken.yaml", tmp_path / "missing.yaml"
    broken.write_text("a: [")
    with pytest.raises(UsageError) as caught:
        load_objects([str(broken), str(missing), str(tmp_path), "-"], io.StringIO("- 1"))
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0].split(",")[0] for line in lines] == [
        str(broken), str(missing), str(tmp_path), "standard input",
    ]  # fmt: skip


def test_standard_input_can_be_read_only_once():
    with pytest.raises(UsageError, match="only once"):
        load_objects(["-", "-"], io.StringIO(GOOD))


def test_a_file_in_another_encoding_is_told_from_one_that_is_broken(tmp_path):
    file = tmp_path / "latin.yaml"
    file.write_bytes(b"a: \xe4")
    with pytest.raises(UsageError, match="is not UTF-8 at byte 3; save it as UTF-8"):
        load_objects([str(file)], io.StringIO())


@pytest.mark.parametrize("text", ["12:30:45", "2026-01-02", "1e3", "0o17", "1:30"])
def test_a_scalar_is_the_text_that_kubernetes_takes_it_for(text):
    assert loaded(GOOD + f"data: {{a: {text}}}")[0].object["data"]["a"] == text


@given(st.text(max_size=60))
def test_any_text_gives_objects_or_sentences(text):
    try:
        found = loaded(text)
    except UsageError:
        return
    assert all(isinstance(one.object["metadata"]["name"], str) for one in found)
