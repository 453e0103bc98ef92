"""Makes the static frequency tables of the entropy stage `rans`.

    python scripts/make_frequency_tables.py

writes spec/frequency_tables.csv, which is normative, and the same numbers as
codec/entropy/static_tables.inc. The numbers are what counts: readers and writers take
them as they stand, so that nothing here has to give the same results everywhere.

Values are taken as generalised normal: density proportional to exp(-|x/a|^shape). What
a codec knows of a group is its mean magnitude, to a quarter octave; a table is the
average over that quarter.
"""

from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TOTAL = 4096
N_SYMBOLS = 32
SHAPES = (1.0, 1.25, 1.5, 1.75, 2.0, 2.4, 3.2, 8.0)
PHASES = 4
DIRECT_CLASSES = range(1, 36)  # coded without low bits
DIRECT_REACH = 15
CLASS_OF_ONE = 29
CLASS_SPREADS = (0.25, 0.4, 0.6, 0.85, 1.2, 1.8, 3.0, 6.0)  # of differences of classes
N_STEPS = 1 << 18  # of the integral
FARTHEST = 64.0  # of the integral, in units of the mean


def density(shape):
    """Points from 0 in units of the mean magnitude, and the probability up to each."""
    x = np.linspace(0, FARTHEST, N_STEPS + 1)
    middle = (x[1:] + x[:-1]) / 2
    # A scale that keeps the tail inside; then everything in units of the mean.
    weight = np.exp(-(middle**shape))
    weight /= weight.sum()
    mean = (middle * weight).sum()
    return x / mean, np.concatenate([[0.0], np.cumsum(weight)])


class Shape:
    def __init__(self, shape):
        self.points, self.up_to = density(shape)

    def magnitude_below(self, x, mean):
        """Probability of a magnitude below x."""
        return np.interp(x / mean, self.points, self.up_to)

    def below(self, x, mean):
        half = self.magnitude_below(np.abs(x), mean) / 2
        return 0.5 + np.sign(x) * half

    def mean_of_rounded(self, mean):
        """Mean magnitude of the values rounded to integers."""
        edges = np.arange(0, max(64, int(24 * mean))) + 0.5
        return (1 - self.magnitude_below(edges, mean)).sum()

    def mean_before_rounding(self, rounded):
        low, high = 1e-4, 4 * rounded + 4
        for _ in range(60):
            middle = (low * high) ** 0.5
            if self.mean_of_rounded(middle) < rounded:
                low = middle
            else:
                high = middle
        return low


def quantise(probabilities, is_used=True):
    """Integers that sum to TOTAL, of at least 1 for symbols that are used."""
    p = np.asarray(probabilities, dtype=float)
    counts = np.where(is_used, np.maximum(1, np.rint(p / p.sum() * TOTAL)), 0).astype(int)
    while counts.sum() != TOTAL:
        # Where a step costs least.
        step = 1 if counts.sum() < TOTAL else -1
        cost = -p * np.log2(np.maximum(counts + step, 1e-9) / np.maximum(counts, 1))
        cost[(counts + step < 1) | (counts == 0)] = np.inf
        counts[np.argmin(cost)] += step
    return counts


def quarter(first):
    """Means in the quarter octave from 2^(first / 4) on."""
    return 2 ** ((first + (np.arange(16) + 0.5) / 16) / 4)


def lossless_table(shape, phase):
    """Symbols: fifteen exponents, the third above the mean's first, in halves; zero; escape."""
    p = np.zeros(N_SYMBOLS)
    for mean in quarter(phase):
        for symbol in range(30):
            low = 2.0 ** (4 - 1 - symbol // 2) * (1 + (symbol % 2) / 2)
            high = low + 2.0 ** (4 - 1 - symbol // 2) / 2
            p[symbol] += shape.magnitude_below(high, mean) - shape.magnitude_below(low, mean)
    p /= 16
    p[31] = max(1 - p[:30].sum(), 0)
    return quantise(p)


def direct_reach(scale_class):
    """The largest magnitude that has a symbol."""
    return 3 if scale_class < 13 else 7 if scale_class < 25 else DIRECT_REACH


def direct_table(shape, first, low_bits, reach):
    """Symbols: codes shifted right by low_bits, plus DIRECT_REACH; escape."""
    p = np.zeros(N_SYMBOLS)
    codes = np.arange(-DIRECT_REACH, DIRECT_REACH + 2)
    edges = codes * 2.0**low_bits - 0.5
    for mean in quarter(first):
        scale = shape.mean_before_rounding(mean) if low_bits == 0 else mean
        p[:31] += np.diff(shape.below(edges, scale)) / 16
    is_used = np.append(np.abs(codes[:31]) <= reach, True)
    p *= is_used
    p[31] = max(1 - p[:31].sum(), 0)
    return quantise(p, is_used)


def class_table(spread):
    """Symbols: differences 0, -1, 1, -2, …; 30 a group of zeros; 31 escape."""
    symbols = np.arange(30)
    difference = np.where(symbols % 2 == 0, symbols // 2, -(symbols + 1) // 2)
    p = np.zeros(N_SYMBOLS)
    p[:30] = np.exp(-((np.abs(difference) / spread) ** 1.4))
    p /= p.sum()
    p[30] = 1 / 512
    p[31] = 1 / 1024
    return quantise(p)


def clean_table(ratio):
    """Symbols: clean bits above the base."""
    return quantise(np.power(ratio, np.arange(N_SYMBOLS)))


def all_tables():
    """Pairs of what a table is for and its frequencies, in the order of their numbers."""
    for number, value in enumerate(SHAPES):
        shape = Shape(value)
        for phase in range(PHASES):
            yield f"family {number} lossless phase {phase}", lossless_table(shape, phase)
        for scale_class in DIRECT_CLASSES:
            first = scale_class - CLASS_OF_ONE
            yield (
                f"family {number} direct class {scale_class}",
                direct_table(shape, first, 0, direct_reach(scale_class)),
            )
        for phase in range(PHASES):
            first = 36 + phase - CLASS_OF_ONE
            # As with two low bits: between one and many.
            table = direct_table(shape, first + 4, 2, DIRECT_REACH)
            yield f"family {number} direct phase {phase}", table
    for number, spread in enumerate(CLASS_SPREADS):
        yield f"classes {number}", class_table(spread)
    for number, ratio in enumerate((0.02, 0.3, 0.8, 1.0)):
        yield f"clean bits {number}", clean_table(ratio)


def main():
    tables = list(all_tables())
    with open(ROOT / "spec/frequency_tables.csv", "w", encoding="utf-8") as out:
        out.write("table," + ",".join(f"f{i}" for i in range(N_SYMBOLS)) + "\n")
        for name, table in tables:
            assert table.sum() == TOTAL
            out.write(name + "," + ",".join(map(str, table)) + "\n")
    with open(ROOT / "codec/entropy/static_tables.inc", "w", encoding="utf-8") as out:
        out.write(
            "// Made by scripts/make_frequency_tables.py; spec/frequency_tables.csv has names.\n"
        )
        for _, table in tables:
            out.write("{" + ", ".join(map(str, table)) + "},\n")


if __name__ == "__main__":
    main()
