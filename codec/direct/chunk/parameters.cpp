#include "codec/direct/chunk/parameters.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace cfck::codec {
namespace {

enum ParameterFlag : std::uint8_t {
  kHasRowSteps = 1 << 0,
  kHasPrediction = 1 << 1,
  kHasField = 1 << 2,
};

inline constexpr unsigned kMaxWidth = 16;

// Specification, section 3: appends minimum, width, and the excess of each number over the minimum.
void append_packed(std::span<const std::int16_t> numbers, std::vector<std::byte>& out) {
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  const auto range = static_cast<std::uint32_t>(*high - *low);
  const auto width = static_cast<unsigned>(std::bit_width(range));
  append_varint(zigzag(*low), out);
  out.push_back(static_cast<std::byte>(width));
  std::uint64_t pending = 0;
  unsigned n_pending = 0;
  for (const std::int16_t number : numbers) {
    pending |= static_cast<std::uint64_t>(number - *low) << n_pending;
    for (n_pending += width; n_pending >= 8; n_pending -= 8, pending >>= 8) {
      out.push_back(static_cast<std::byte>(pending));
    }
  }
  if (n_pending != 0) {
    out.push_back(static_cast<std::byte>(pending));
  }
}

Result<std::vector<std::int16_t>> read_packed(std::uint64_t n, VarintReader& in) {
  const std::size_t at = in.origin() + in.position();
  CFCK_TRY_ASSIGN(const std::uint32_t coded_minimum, in.varint());
  CFCK_TRY_ASSIGN(const std::uint8_t width, in.byte());
  const std::int32_t minimum = unzigzag(coded_minimum);
  if (width > kMaxWidth || coded_minimum > 0xffff) {
    return corrupt("a packed vector has entries that do not fit 16 bits", at);
  }
  // A vector of width 0 has no bytes that limit its length.
  if (n > kMaxPacked) {
    return corrupt("a packed vector is too long", at);
  }
  CFCK_TRY_ASSIGN(const ByteView packed, in.take((n * width + 7) / 8));
  std::vector<std::int16_t> numbers(n);
  std::uint64_t pending = 0;
  unsigned n_pending = 0;
  std::size_t next = 0;
  for (std::int16_t& number : numbers) {
    for (; n_pending < width; n_pending += 8) {
      pending |= static_cast<std::uint64_t>(packed[next++]) << n_pending;
    }
    const auto above = static_cast<std::int32_t>(pending & ((1u << width) - 1));
    pending >>= width;
    n_pending -= width;
    if (minimum + above > std::numeric_limits<std::int16_t>::max()) {
      return corrupt("a packed vector has entries that do not fit 16 bits", at);
    }
    number = static_cast<std::int16_t>(minimum + above);
  }
  if (pending != 0) {
    return corrupt("unused bits of a packed vector are set", at);
  }
  return numbers;
}

Result<void> read_steps(std::uint8_t flags, const DirectGeometry& geometry, VarintReader& in,
                        DirectParameters& parameters) {
  const std::size_t at = in.origin() + in.position();
  if ((flags & kHasRowSteps) == 0) {
    CFCK_TRY_ASSIGN(const ByteView bytes, in.take(sizeof(double)));
    parameters.step = load<double>(bytes.data());
    if (!(parameters.step > 0) || parameters.step > std::numeric_limits<double>::max()) {
      return corrupt("the step is not a positive number", at);
    }
    return {};
  }
  if (geometry.rows > (std::uint64_t{1} << 32)) {
    return corrupt("too many rows for a step per row", at);
  }
  CFCK_TRY_ASSIGN(const ByteView bytes, in.take(2 * geometry.rows));
  parameters.row_steps.resize(geometry.rows);
  for (std::size_t i = 0; i < parameters.row_steps.size(); ++i) {
    parameters.row_steps[i] = load<std::uint16_t>(bytes.data() + 2 * i);
    if (parameters.row_steps[i] >= 0x7f80) {
      return corrupt("the step of a row is not a number", at + 2 * i);
    }
  }
  return {};
}

}  // namespace

Result<DirectGeometry> direct_geometry(std::span<const std::uint64_t> shape) {
  std::uint64_t n_values = 1;
  std::uint64_t kernel_size = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!checked_mul(n_values, shape[i], n_values) || n_values >= std::uint64_t{1} << 62) {
      return unsupported("a tensor has at most 2^62 values");
    }
    kernel_size *= i >= 2 && kernel_size <= kMaxKernelSize
                       ? std::min<std::uint64_t>(shape[i], kMaxKernelSize + 1)
                       : 1;
  }
  DirectGeometry geometry;
  if (shape.empty() || n_values == 0) {
    geometry.columns = n_values;
    return geometry;
  }
  geometry.kernel_size = kernel_size >= 2 && kernel_size <= kMaxKernelSize
                             ? static_cast<std::uint32_t>(kernel_size)
                             : 1;
  geometry.rows = shape.size() >= 2 ? shape[0] : 1;
  geometry.columns = n_values / geometry.rows / geometry.kernel_size;
  return geometry;
}

double row_step_value(std::uint16_t step) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(step) << 16);
}

void append_parameters(const DirectParameters& parameters, std::vector<std::byte>& out) {
  const bool has_rows = !parameters.row_steps.empty();
  const bool has_prediction = !parameters.coefficients.empty();
  const bool has_field = !parameters.field.empty();
  out.push_back(static_cast<std::byte>((has_rows ? kHasRowSteps : 0) |
                                       (has_prediction ? kHasPrediction : 0) |
                                       (has_field ? kHasField : 0)));
  const std::size_t start = out.size();
  if (has_rows) {
    out.resize(start + 2 * parameters.row_steps.size());
    for (std::size_t i = 0; i < parameters.row_steps.size(); ++i) {
      store(out.data() + start + 2 * i, parameters.row_steps[i]);
    }
  } else {
    out.resize(start + sizeof(double));
    store(out.data() + start, parameters.step);
  }
  if (has_prediction) {
    append_packed(parameters.coefficients, out);
  }
  if (has_field) {
    append_packed(parameters.field.bands, out);
    append_packed(parameters.field.rows, out);
    append_packed(parameters.field.columns, out);
  }
}

Result<DirectParameters> read_parameters(const DirectGeometry& geometry, VarintReader& in) {
  DirectParameters parameters;
  const std::size_t at = in.origin() + in.position();
  CFCK_TRY_ASSIGN(const std::uint8_t flags, in.byte());
  if (flags > (kHasRowSteps | kHasPrediction | kHasField)) {
    return corrupt("unknown flags of the parameters", at);
  }
  if ((flags & kHasPrediction) && geometry.kernel_size < 2) {
    return corrupt("prediction in a tensor without kernels", at);
  }
  CFCK_TRY(read_steps(flags, geometry, in, parameters));
  if (flags & kHasPrediction) {
    CFCK_TRY_ASSIGN(parameters.coefficients, read_packed(n_coefficients(geometry.kernel_size), in));
  }
  if (flags & kHasField) {
    CFCK_TRY_ASSIGN(parameters.field.bands, read_packed(geometry.kernel_size, in));
    CFCK_TRY_ASSIGN(parameters.field.rows, read_packed(geometry.rows, in));
    CFCK_TRY_ASSIGN(parameters.field.columns, read_packed(geometry.columns, in));
  }
  return parameters;
}

Result<DirectParameters> parse_parameters(const DirectGeometry& geometry, ByteView preamble) {
  VarintReader in(preamble);
  CFCK_TRY_ASSIGN(DirectParameters parameters, read_parameters(geometry, in));
  if (!in.at_end()) {
    return corrupt("bytes after the parameters", in.position());
  }
  return parameters;
}

bool has_scale_field(ByteView preamble) noexcept {
  return !preamble.empty() && (preamble[0] & std::byte{kHasField}) != std::byte{0};
}

Result<double> step_of(double bound) {
  if (!(bound >= 0x1p-1000 && bound <= 0x1p1000)) {
    return invalid_argument("the error bound must be a number from 2^-1000 to 2^1000");
  }
  const double twice = 2 * bound;
  const double less = twice * 0x1p-20;  // exact
  const double step = twice - less;
  // The rounding error; exact, since `less` is smaller than `twice`.
  const double excess = (twice - step) - less;
  return excess < 0 ? std::bit_cast<double>(std::bit_cast<std::uint64_t>(step) - 1) : step;
}

Result<std::uint16_t> row_step_of(double bound) {
  if (bound >= 0 && bound < 0x1p-140) {
    return std::uint16_t{0};
  }
  CFCK_TRY_ASSIGN(const double step, step_of(bound));
  if (step >= 0x1p127) {
    return std::uint16_t{0x7f00};  // 2^127
  }
  const auto nearest = static_cast<float>(step);
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  bits -= static_cast<double>(nearest) > step ? 1 : 0;
  return static_cast<std::uint16_t>(bits >> 16);
}

double power_of_two_below(double step) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(step) & 0x7ff0000000000000u);
}

}  // namespace cfck::codec
