# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Amounts as Kubernetes writes them (500m, 16Gi, 1e3), exact, with one spelling for one amount."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import ROUND_UP, Decimal, InvalidOperation, localcontext
from enum import Enum
from typing import Final

NANO: Final = 10**9
LIMIT: Final = (2**63 - 1) * NANO  # the API server caps what is larger, instead of refusing it
DIGITS: Final = 80  # more than LIMIT in nano has; an amount with more digits is rounded up anyway

_SHORT: Final = 9  # digits that are far from LIMIT
_SHAPE: Final = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))"
    r"(?P<suffix>[eE][+-]?\d{1,3}|[KMGTPE]i|[numkMGTPE]?)",
    re.ASCII,
)
_BINARY: Final = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_SUFFIX: Final = {power: suffix for suffix, power in _DECIMAL.items()}


class Form(Enum):
    """Which suffixes an amount is written with; it never changes the amount."""

    DECIMAL = "decimal"
    BINARY = "binary"
    EXPONENT = "exponent"


class QuantityError(ValueError):
    """Not an amount."""


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount, compared by value: 1, 1000m and 1e0 are equal.

    Unit:    billionths, which is the finest the API server keeps; finer is rounded away from zero.
    Form:    that of the text; a sum takes that of its first part that is not zero.
    str():   the canonical text: no fraction, the largest suffix that leaves a whole number.
    Source:  the canonical form in the documentation of apimachinery's resource.Quantity.
    """

    nanos: int = 0
    form: Form = field(default=Form.DECIMAL, compare=False)

    @classmethod
    def parse(cls, text: object) -> Quantity:
        """From the text of a manifest, or from the number that YAML made of it.

        Raises:  QuantityError.
        """
        if isinstance(text, str) and len(text) <= _SHORT and text.isdecimal() and text.isascii():
            return cls(int(text) * NANO)  # nearly every amount of devices
        found = None if isinstance(text, bool) else _SHAPE.fullmatch(str(text))
        if found is None:
            raise QuantityError(f"{text!r} is not an amount; write it like 8, 500m or 16Gi")
        number, suffix = found["number"], found["suffix"]
        if suffix in _BINARY:
            return cls(_nanos(number, _BINARY[suffix], 0), Form.BINARY)
        if suffix in _DECIMAL:
            return cls(_nanos(number, 1, _DECIMAL[suffix]), Form.DECIMAL)
        return cls(_nanos(number, 1, int(suffix[1:])), Form.EXPONENT)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self.form if self.nanos else other.form)

    def __mul__(self, count: int) -> Quantity:
        return Quantity(self.nanos * count, self.form)

    def __bool__(self) -> bool:
        return self.nanos != 0

    @property
    def whole(self) -> int:
        """Rounded away from zero to an integer, as schedulers count devices."""
        return -(-self.nanos // NANO) if self.nanos > 0 else self.nanos // NANO

    def __str__(self) -> str:
        if self.form is Form.BINARY and self.nanos % NANO == 0 and abs(self.nanos) >= 1024 * NANO:
            return _binary(self.nanos // NANO)
        return _decimal(self.nanos, exponent=self.form is Form.EXPONENT)


def _nanos(number: str, factor: int, power: int) -> int:
    with localcontext(prec=DIGITS):
        try:
            exact = Decimal(number) * factor * NANO
            whole = int(exact.scaleb(power).to_integral_value(ROUND_UP))
        except (InvalidOperation, OverflowError) as error:
            raise QuantityError(f"{number!r} has too many digits for an amount") from error
    return max(-LIMIT, min(LIMIT, whole))


def _binary(units: int) -> str:
    best = max(("", *_BINARY), key=lambda suffix: _divisor(units, suffix))
    return f"{units // _BINARY.get(best, 1)}{best}"


def _divisor(units: int, suffix: str) -> int:
    factor = _BINARY.get(suffix, 1)
    return factor if units % factor == 0 else 0


def _decimal(nanos: int, *, exponent: bool) -> str:
    if not nanos:
        return "0"
    power = -9
    while nanos % 1000 == 0 and power < _DECIMAL["E"]:
        nanos, power = nanos // 1000, power + 3
    if exponent:
        return f"{nanos}e{power}" if power else str(nanos)
    return f"{nanos}{_SUFFIX[power]}"
