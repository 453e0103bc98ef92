"""Makes the cosines of the transforms.

    python scripts/make_cosine_table.py

writes spectral/transforms/cosine_table.inc: for n = 33 to 64 and m = 1 to n - 1 the binary64 number
nearest to cos(pi * m / (2 * n)), as a hexadecimal literal. Smaller n are found there too,
since m / n = 2m / 2n. Computed with 80 decimal digits; a cosine so near to the middle of
two binary64 numbers that these could not decide is an error. None is.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIDES = range(33, 65)
DIGITS = 80
ERROR = Fraction(1, 10**70)  # far above what the series and its roundings leave
PER_LINE = 4


def arctangent_of_inverse(x):
    """arctan(1 / x) by its series."""
    power = Decimal(1) / x
    total = power
    k = 1
    while abs(power) > Decimal(10) ** -(DIGITS + 5):
        power /= -x * x
        k += 2
        total += power / k
    return total


def cosine(angle):
    """cos of an angle from 0 to pi / 2 by its series."""
    term = total = Decimal(1)
    k = 0
    while abs(term) > Decimal(10) ** -(DIGITS + 5):
        k += 2
        term *= -angle * angle / (k * (k - 1))
        total += term
    return total


def nearest_binary64(value):
    """The nearest binary64 number, of which the digits leave no doubt."""
    exact = Fraction(value)
    nearest = float(exact)
    for neighbour in (math.nextafter(nearest, 0), math.nextafter(nearest, 2)):
        middle = (Fraction(nearest) + Fraction(neighbour)) / 2
        if abs(exact - middle) <= ERROR:
            raise SystemExit(f"{value} is too near to the middle of two numbers")
    if abs(exact - Fraction(nearest)) > Fraction(math.ulp(nearest)) / 2:
        raise SystemExit(f"{value} was not rounded to the nearest number")
    return nearest


def table():
    with localcontext() as context:
        context.prec = DIGITS + 10
        pi = 4 * (4 * arctangent_of_inverse(Decimal(5)) - arctangent_of_inverse(Decimal(239)))
        return [nearest_binary64(cosine(pi * m / (2 * n))) for n in SIDES for m in range(1, n)]


def main():
    numbers = [number.hex() for number in table()]
    lines = ["// Made by scripts/make_cosine_table.py."]
    for start in range(0, len(numbers), PER_LINE):
        lines.append(", ".join(numbers[start : start + PER_LINE]) + ",")
    path = ROOT / "spectral" / "cosine_table.inc"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(numbers)} cosines in {path.name}")


if __name__ == "__main__":
    main()
