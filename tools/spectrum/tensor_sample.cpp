#include "tools/spectrum/tensor_sample.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "tools/measure/values.hpp"

namespace cfck::tools {
namespace {

constexpr std::uint64_t kRowsTogether = 64;
constexpr std::uint64_t kElemsPerRow = 64;  // where a tensor has no rows

// Which rows of a tensor are taken: `n_runs` runs of `run_rows`, `pitch_rows` apart.
struct RowPlan {
  Shape shape;  // of the tensor, as rows
  std::uint64_t row_elems = 1;
  std::uint64_t run_rows = 0;
  std::uint64_t n_runs = 1;
  std::uint64_t pitch_rows = 0;
};

RowPlan plan_rows(const Shape& shape, std::uint64_t n_elems, std::uint64_t max_elems) {
  RowPlan plan;
  plan.shape = shape;
  if (n_elems <= max_elems) {
    plan.row_elems = n_elems;
    plan.run_rows = 1;
    return plan;
  }
  plan.row_elems = shape.size() < 2 ? n_elems : n_elems / shape[0];
  if (plan.row_elems * kRowsTogether > max_elems) {
    plan.row_elems = kElemsPerRow;
    plan.shape = {n_elems / kElemsPerRow, kElemsPerRow};
  }
  const std::uint64_t n_rows = plan.shape[0];
  plan.run_rows = std::min(kRowsTogether, n_rows);
  plan.n_runs = std::max<std::uint64_t>(1, max_elems / (plan.run_rows * plan.row_elems));
  plan.pitch_rows = n_rows / plan.n_runs;
  plan.shape[0] = plan.n_runs * plan.run_rows;
  return plan;
}

using ReadRun =
    std::function<Result<void>(std::uint64_t first_elem, std::uint64_t n_elems, MutableBytes out)>;

Result<TensorSample> take(const Shape& shape, std::uint64_t n_elems, unsigned bits_per_elem,
                          std::uint64_t max_elems, const ReadRun& read) {
  const RowPlan plan = plan_rows(shape, n_elems, max_elems);
  TensorSample sample;
  sample.shape = plan.shape;
  sample.is_whole = n_elems <= max_elems;
  const std::uint64_t run_elems = plan.run_rows * plan.row_elems;
  // Sub-byte elements: runs are multiples of 64 elements, or the whole tensor.
  const std::uint64_t run_bytes = (run_elems * bits_per_elem + 7) / 8;
  sample.bytes.resize(run_bytes * plan.n_runs);
  for (std::uint64_t run = 0; run < plan.n_runs; ++run) {
    const std::uint64_t first_row = run * plan.pitch_rows;
    CFCK_TRY(read(first_row * plan.row_elems, run_elems,
                  MutableBytes(sample.bytes).subspan(run * run_bytes, run_bytes)));
  }
  return sample;
}

}  // namespace

Result<TensorSample> read_sample(const TensorSet& set, const StoredTensor& tensor,
                                 std::uint64_t max_elems) {
  return take(tensor.shape, tensor.n_elems, bits_per_element(tensor.dtype), max_elems,
              [&](std::uint64_t first_elem, std::uint64_t n_elems, MutableBytes out) {
                return set.read(tensor, first_elem, n_elems, out);
              });
}

TensorSample smaller_sample(const TensorSample& sample, unsigned bits_per_elem,
                            std::uint64_t max_elems) {
  std::uint64_t n_elems = 1;
  for (const std::uint64_t dim : sample.shape) n_elems *= dim;
  auto smaller = take(sample.shape, n_elems, bits_per_elem, max_elems,
                      [&](std::uint64_t first_elem, std::uint64_t, MutableBytes out) {
                        const std::uint64_t at = first_elem * bits_per_elem / 8;
                        const ByteView run = ByteView(sample.bytes).subspan(at, out.size());
                        std::copy(run.begin(), run.end(), out.begin());
                        return Result<void>();
                      });
  smaller->is_whole = smaller->is_whole && sample.is_whole;
  return std::move(*smaller);
}

std::vector<double> finite_values(DType dtype, ByteView bytes, std::uint64_t& n_not_finite) {
  const ValueDecoder decoder(dtype);
  const std::uint64_t n_values = bytes.size() * 8 / bits_per_element(dtype) * decoder.parts();
  std::vector<double> values(n_values);
  constexpr std::uint64_t kPiece = 4096;  // elements
  std::vector<std::uint64_t> keys(kPiece * decoder.parts());
  const std::uint64_t piece_bytes = kPiece * bits_per_element(dtype) / 8;
  const std::uint64_t piece_values = kPiece * decoder.parts();
  for (std::uint64_t i = 0; i * piece_bytes < bytes.size(); ++i) {
    const ByteView piece = bytes.subspan(
        i * piece_bytes, std::min<std::uint64_t>(piece_bytes, bytes.size() - i * piece_bytes));
    const std::uint64_t n = std::min(piece_values, n_values - i * piece_values);
    decoder.decode(piece, std::span(values).subspan(i * piece_values, n), std::span(keys).first(n));
  }
  n_not_finite = 0;
  for (double& value : values) {
    if (std::isfinite(value)) continue;
    value = 0;
    ++n_not_finite;
  }
  return values;
}

}  // namespace cfck::tools
