# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Amounts are exact, and one amount has one spelling."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendop.kube.quantity import LIMIT, NANO, Form, Quantity, QuantityError


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("8", "8"),
        (8, "8"),
        (0.5, "500m"),
        ("0", "0"),
        ("-0", "0"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.1", "100m"),
        (".5", "500m"),
        ("5.", "5"),
        ("+3", "3"),
        ("-1500", "-1500"),
        ("1000", "1k"),
        ("12000000", "12M"),
        ("1024", "1024"),
        ("1Ki", "1Ki"),
        ("0.5Ki", "512"),
        ("1.5Gi", "1536Mi"),
        ("1024Gi", "1Ti"),
        ("1040Gi", "1040Gi"),
        ("1000Ki", "1000Ki"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("1e2", "100"),
        ("1E", "1E"),
        ("12e6", "12e6"),
        ("100u", "100u"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("100Ei", "9223372036854775807"),
    ],
)
def test_an_amount_has_one_canonical_text(text, want):
    """scheduling:SCH-69, runtime:P-23."""
    assert str(Quantity.parse(text)) == want


@pytest.mark.parametrize(
    "text", ["", "many", "1.2.3", "1 Gi", "Gi", "1gi", "0x10", "1e", "٣", None, True, [], "1K"]
)
def test_what_is_no_amount_is_refused_with_the_text_in_the_message(text):
    with pytest.raises(QuantityError, match="is not an amount"):
        Quantity.parse(text)


def test_a_huge_exponent_costs_nothing():
    assert str(Quantity.parse("1e999")) == str(Quantity(LIMIT, Form.EXPONENT))
    assert Quantity.parse("1e-999").nanos == 1


def test_amounts_compare_by_value_not_by_spelling():
    """scheduling:SCH-19."""
    assert Quantity.parse("1") == Quantity.parse("1000m") == Quantity.parse("1e0")
    assert Quantity.parse("1Gi") == Quantity.parse("1073741824")
    assert max(Quantity.parse("1G"), Quantity.parse("1Gi")) == Quantity.parse("1Gi")


def test_a_sum_is_written_in_the_form_of_its_first_part_that_is_not_zero():
    assert str(Quantity() + Quantity.parse("512Mi") + Quantity.parse("536870912")) == "1Gi"


@pytest.mark.parametrize(("text", "want"), [("1500m", 2), ("2", 2), ("0", 0), ("-1500m", -2)])
def test_devices_are_counted_whole_and_rounded_away_from_zero(text, want):
    assert Quantity.parse(text).whole == want


amounts = st.builds(
    Quantity, st.integers(min_value=-LIMIT, max_value=LIMIT), st.sampled_from(list(Form))
)


@given(amounts)
def test_the_canonical_text_reads_back_as_the_same_amount(amount):
    assert Quantity.parse(str(amount)) == amount
    assert str(Quantity.parse(str(amount))) == str(amount)


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=9, min_value=-(10**9), max_value=10**9
    )
)
def test_no_digit_is_lost(number):
    assert Fraction(Quantity.parse(format(number, "f")).nanos, NANO) == Fraction(number)
