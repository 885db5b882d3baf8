# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Rank tables in a directory that is the users', too."""

import os

import pytest

from ascendop.apply.files import (
    SharedDirectoryError,
    kept_tables,
    make_directory,
    read_table,
    remove_table,
    write_table,
)

JOB = "ns.job"


def test_a_table_is_read_as_it_was_written(tmp_path):
    write_table(tmp_path, JOB, "table", "7")
    assert read_table(tmp_path, JOB) == ("table", "7")
    assert list(kept_tables(tmp_path)) == [("ns", "job")]


def test_nothing_is_left_of_a_table_that_was_removed(tmp_path):
    write_table(tmp_path, JOB, "table", "7")
    remove_table(tmp_path, JOB)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_somebody_else_stays(tmp_path):
    write_table(tmp_path, JOB, "table", "7")
    (tmp_path / JOB / "mine").touch()
    remove_table(tmp_path, JOB)
    assert list((tmp_path / JOB).iterdir()) == [tmp_path / JOB / "mine"]


def test_a_job_whose_name_no_directory_can_have_is_removed_like_any_other(tmp_path):
    remove_table(tmp_path, f"ns.{'x' * 253}")


def test_a_job_whose_name_no_directory_can_have_gets_no_table(tmp_path):
    with pytest.raises(SharedDirectoryError, match="File name too long"):
        write_table(tmp_path, f"ns.{'x' * 253}", "table", "7")


def test_a_link_is_neither_written_through_nor_removed(tmp_path):
    other = tmp_path / "other"
    write_table(tmp_path, "other", "theirs", "1")
    (tmp_path / JOB).symlink_to(other)
    with pytest.raises(SharedDirectoryError, match="symbolic link"):
        make_directory(tmp_path, JOB)
    remove_table(tmp_path, JOB)
    assert read_table(tmp_path, "other") == ("theirs", "1")


def fifo(path):
    os.mkfifo(path)


def binary(path):
    path.write_bytes(b"\xff\xfe")


def folder(path):
    path.mkdir()


@pytest.mark.parametrize("make", [fifo, folder])
def test_what_is_no_file_counts_as_no_table(tmp_path, make):
    (tmp_path / JOB).mkdir()
    make(tmp_path / JOB / "hccl.json")
    assert read_table(tmp_path, JOB) == ("", "")


@pytest.mark.parametrize("make", [fifo, binary])
def test_what_a_user_put_in_place_of_the_table_is_replaced(tmp_path, make):
    (tmp_path / JOB).mkdir()
    make(tmp_path / JOB / "hccl.json")
    read_table(tmp_path, JOB)
    write_table(tmp_path, JOB, "table", "7")
    assert read_table(tmp_path, JOB) == ("table", "7")


@pytest.mark.parametrize("make", [fifo, binary])
def test_what_a_user_put_beside_the_table_does_not_stop_it(tmp_path, make):
    (tmp_path / JOB).mkdir()
    make(tmp_path / JOB / ".hccl.json.new")
    write_table(tmp_path, JOB, "table", "7")
    assert read_table(tmp_path, JOB) == ("table", "7")


def test_a_second_name_of_a_file_beside_the_table_leaves_that_file_alone(tmp_path):
    (tmp_path / JOB).mkdir()
    (tmp_path / "precious").write_text("kept")
    os.link(tmp_path / "precious", tmp_path / JOB / ".hccl.json.new")
    write_table(tmp_path, JOB, "table", "7")
    assert (tmp_path / "precious").read_text() == "kept"
