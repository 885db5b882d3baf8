# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Reading the device annotation: a type, or an error that names the field."""

import pytest

from ascendop.ranktable.devices import Device, DeviceAnnotationError, parse_devices


def test_what_the_device_plugin_writes_is_read_in_the_order_in_which_it_stands():
    got = parse_devices(
        '{"pod_name":"p","server_id":"u","server_ip":"10.0.0.1","host_ip":"10.0.0.2",'
        '"super_pod_id":3,"rack_id":0,"server_index":"5","devices":['
        '{"device_id":"7","device_ip":"1.1.1.7","super_device_id":"37"},{"device_id":"0"}]}'
    )
    assert (got.server_id, got.host_ip) == ("u", "10.0.0.2")
    assert got.devices == (Device("7", "1.1.1.7", "37"), Device("0"))


def test_lists_that_are_null_are_absent():
    got = parse_devices('{"devices":[{"device_id":"0","levelList":null}]}')
    assert got.devices[0].levels is None


@pytest.mark.parametrize(
    ("annotation", "field"),
    [
        pytest.param("", "truncated", id="nothing"),
        pytest.param("{", "truncated", id="half an object"),
        pytest.param("null", "expected `object`", id="null"),
        pytest.param("{}", "devices", id="no devices"),
        pytest.param('{"devices":null}', r"\$\.devices", id="devices are null"),
        pytest.param('{"devices":[{}]}', r"device_id.*\$\.devices\[0\]", id="a device without id"),
        pytest.param(
            '{"devices":[{"device_id":"0"},{"device_id":1}]}',
            r"expected `str`.*\$\.devices\[1\]\.device_id",
            id="an id that is no string",
        ),
        pytest.param(
            '{"devices":[],"host_ip":5}',
            r"expected `str`.*\$\.host_ip",
            id="an address of another type",
        ),
        pytest.param(
            '{"devices":[{"device_id":"0","levelList":[{"level":"0","info":{}}]}]}',
            r"expected `int`.*levelList\[0\]\.level",
            id="a level that is no number",
        ),
    ],
)
def test_an_annotation_of_another_shape_is_an_error_that_names_the_field(annotation, field):
    with pytest.raises(DeviceAnnotationError, match=f"(?i){field}"):
        parse_devices(annotation)
