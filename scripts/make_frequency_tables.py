"""Makes the static frequency tables of the entropy stage `rans`.

    python scripts/make_frequency_tables.py

writes spec/frequency_tables.csv, which is normative, and the same numbers as
codec/entropy/rans/tables/static_tables.inc. The numbers are what counts: readers and writers take
them as they stand, so that nothing here has to give the same results everywhere.

Values are taken as generalised normal: density proportional to exp(-|x/a|^shape). What
a codec knows of a group is its mean magnitude, to a quarter octave; a table is the
average over that quarter.

The tables of the spectral codec are counted: drawn values are quantised by the trellis of
eight states, in half of the families with bits weighed.
"""

from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TOTAL = 4096
N_SYMBOLS = 32
SHAPES = (1.0, 1.25, 1.5, 1.75, 2.0, 2.4, 3.2, 8.0)
PHASES = 4
DIRECT_BINS = range(1, 36)  # coded without low bits
DIRECT_REACH = 15
BIN_OF_ONE = 29
BIN_SPREADS = (0.25, 0.4, 0.6, 0.85, 1.2, 1.8, 3.0, 6.0)  # of differences of bins
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


def direct_reach(scale_bin):
    """The largest magnitude that has a symbol."""
    return 3 if scale_bin < 13 else 7 if scale_bin < 25 else DIRECT_REACH


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


# Of the spectral codec: shapes, and what a bit counts in squared steps.
SPECTRAL_FAMILIES = [(shape, weight) for weight in (0.0, 0.3) for shape in (1.2, 1.5, 1.8, 2.0)]
SPECTRAL_ZERO = 16  # its symbol
TRELLIS_NEXT = ((0, 2), (5, 7), (1, 3), (6, 4), (2, 0), (4, 6), (3, 1), (7, 5))
N_LANES, N_SEARCH_STEPS = 4096, 96


def candidates(t, quantiser, parity, most, low_bits, costs):
    """The nearest code of that parity, or zero where that is better, and what it costs."""

    def cost(code):
        point = 2 * code - quantiser * np.sign(code)
        return (t - point) ** 2 + costs[(code >> low_bits) + SPECTRAL_ZERO]

    offset = 2 * parity if quantiser == 0 else 2 * parity - 1
    code = 2 * np.maximum(np.rint((np.abs(t) - offset) / 4), 0).astype(int) + parity
    code = np.minimum(code, most if (most - parity) % 2 == 0 else most - 1)
    code = np.where(t < 0, -code, code)
    best = cost(code)
    if parity == 0:
        zero = cost(np.zeros_like(code))
        code, best = np.where(zero <= best, 0, code), np.minimum(zero, best)
    return code, best


def count_symbols(values, reach, low_bits, costs, last_states=None):
    """Counts by quantiser and symbol; a lane is a column of `values`, in steps.

    Paths begin in state 0 and end where they are best, or, with `last_states`, begin
    anywhere and end there.
    """
    n_steps, n_lanes = values.shape
    most = reach << low_bits
    paths = np.full((8, n_lanes), 1e30 if last_states is None else 0.0)
    paths[0] = 0
    found, origins = [], []
    edges = [(s, p) for s in range(8) for p in (0, 1)]
    into = [[(s, p) for s, p in edges if TRELLIS_NEXT[s][p] == to] for to in range(8)]
    for t in values:
        escapes = np.abs(t) > 2 * most
        options = {}
        for q in (0, 1):
            for p in (0, 1):
                code, cost = candidates(t, q, p, most, low_bits, costs[q])
                symbol = np.where(escapes, 0, (code >> low_bits) + SPECTRAL_ZERO)
                options[q, p] = symbol, np.where(escapes, 1e30 * p, cost)
        ways = [[paths[s] + options[s % 2, p][1] for s, p in into[to]] for to in range(8)]
        origins.append(np.array([second < first for first, second in ways]))
        paths = np.array([np.minimum(first, second) for first, second in ways])
        paths -= paths.min(axis=0)
        found.append(options)
    counts = np.zeros((2, N_SYMBOLS))
    state = paths.argmin(axis=0) if last_states is None else last_states
    sources = np.array([[s for s, _ in pair] for pair in into])
    parities = np.array([[p for _, p in pair] for pair in into])
    lanes = np.arange(n_lanes)
    for step in range(n_steps - 1, -1, -1):
        edge = origins[step][state, lanes].astype(int)
        parity, state = parities[state, edge], sources[state, edge]
        for q in (0, 1):
            for p in (0, 1):
                here = (state % 2 == q) & (parity == p)
                counts[q] += np.bincount(found[step][q, p][0][here], minlength=N_SYMBOLS)
    return counts


def spectral_pair(shape, weight, first, low_bits, reach, random):
    """Tables of both quantisers for values whose mean is from 2^(first / 4) codes on."""
    n = N_LANES * N_SEARCH_STEPS
    drawn = random.gamma(1 / shape, size=n) ** (1 / shape) * random.choice((-1.0, 1.0), size=n)
    means = np.exp2((first + random.random(n)) / 4)
    values = (drawn / np.abs(drawn).mean() * means * 2).reshape(N_SEARCH_STEPS, N_LANES)
    costs = np.zeros((2, N_SYMBOLS))
    for _ in range(3 if weight else 1):
        counts = count_symbols(values, reach, low_bits, costs)
        p = (counts + 0.3) / (counts.sum(axis=1, keepdims=True) + 10)
        costs = -weight * np.log2(p)
    # Few values lead to the second quantiser where almost all are zero, but a lane may come
    # there from values that are not.
    last_states = random.integers(8, size=N_LANES)
    rare = count_symbols(values, reach, low_bits, costs, last_states)
    counts = counts + 0.02 * rare
    codes = np.arange(N_SYMBOLS) - SPECTRAL_ZERO
    is_used = (np.abs(codes) <= reach) | (codes == -SPECTRAL_ZERO)
    return [quantise(c + 1e-3, is_used) for c in counts]


def bin_table(spread):
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
    """Symbols: trailing zero bits above the base."""
    return quantise(np.power(ratio, np.arange(N_SYMBOLS)))


def spectral_tables(number):
    shape, weight = SPECTRAL_FAMILIES[number]
    random = np.random.default_rng(number)
    kinds = [(f"bin {c}", c, 0, direct_reach(c)) for c in DIRECT_BINS]
    # As with two low bits, once more.
    kinds += [(f"phase {i}", 36 + i + 4, 2, DIRECT_REACH) for i in range(PHASES)]
    for name, scale_bin, low_bits, reach in kinds:
        pair = spectral_pair(shape, weight, scale_bin - BIN_OF_ONE, low_bits, reach, random)
        for quantiser, table in enumerate(pair):
            yield f"family {number} spectral {name} quantiser {quantiser}", table


def all_tables():
    """Pairs of what a table is for and its frequencies, in the order of their numbers."""
    for number, value in enumerate(SHAPES):
        shape = Shape(value)
        for phase in range(PHASES):
            yield f"family {number} lossless phase {phase}", lossless_table(shape, phase)
        for scale_bin in DIRECT_BINS:
            first = scale_bin - BIN_OF_ONE
            yield (
                f"family {number} direct bin {scale_bin}",
                direct_table(shape, first, 0, direct_reach(scale_bin)),
            )
        for phase in range(PHASES):
            first = 36 + phase - BIN_OF_ONE
            # As with two low bits: between one and many.
            table = direct_table(shape, first + 4, 2, DIRECT_REACH)
            yield f"family {number} direct phase {phase}", table
        yield from spectral_tables(number)
    for number, spread in enumerate(BIN_SPREADS):
        yield f"bins {number}", bin_table(spread)
    for number, ratio in enumerate((0.02, 0.3, 0.8, 1.0)):
        yield f"trailing zero bits {number}", clean_table(ratio)


def main():
    tables = list(all_tables())
    with open(ROOT / "spec/frequency_tables.csv", "w", encoding="utf-8") as out:
        out.write("table," + ",".join(f"f{i}" for i in range(N_SYMBOLS)) + "\n")
        for name, table in tables:
            assert table.sum() == TOTAL
            out.write(name + "," + ",".join(map(str, table)) + "\n")
    with open(ROOT / "codec/entropy/rans/tables/static_tables.inc", "w", encoding="utf-8") as out:
        out.write(
            "// Made by scripts/make_frequency_tables.py; spec/frequency_tables.csv has names.\n"
        )
        for _, table in tables:
            out.write("{" + ", ".join(map(str, table)) + "},\n")


if __name__ == "__main__":
    main()
