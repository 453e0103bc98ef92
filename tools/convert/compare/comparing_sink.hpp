// A sink that compares what is written to it with a file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cfck/archive.hpp"
#include "cfck/io.hpp"
#include "cfck/writer.hpp"
#include "tools/measure/bound_check.hpp"
#include "tools/measure/target_check.hpp"

namespace cfck::tools {

// Compares bit for bit, except for lossy tensors: no value of these may be beyond the maximum
// error, recomputed from the file, the largest must be that of the index, and a target of the
// tensor alone must be met.
class ComparingSink final : public ByteSink {
 public:
  explicit ComparingSink(const ByteSource& expected) : expected_(expected) {}

  // Tells which tensors of the file, which is `plain`, are lossy in `encoded`, and which of those
  // that are `kept_lossless` are part of the plain target. To be called before anything is written.
  void expect_losses(const TensorArchive& plain, const TensorArchive& encoded,
                     std::span<const KeptLossless> kept_lossless = {});

  Result<void> write(ByteView bytes) override;
  // Errors: kChecksum where the written bytes, or their length, differ.
  Result<void> finish() const;
  // Totals of the tensors that the plain target is for, without bytes of files.
  const TargetTotals& totals() const { return totals_; }

 private:
  // A tensor whose values are compared.
  struct Part {
    std::string name;
    DType dtype = DType::kF32;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t n_rows = 1;
    std::optional<RecordError> error;  // none: bit for bit all the same
    bool in_plain_target = false;
    std::uint64_t stored_bytes = 0;

    ErrorBound bound() const { return error ? error->bound : ErrorBound{BoundKind::kNone}; }
    std::uint64_t value_bytes() const { return bits_per_element(dtype) / 8; }
  };

  Result<void> compare_exactly(ByteView bytes);
  Result<void> compare_values(ByteView bytes);
  BoundCheck check_of(const Part& part) const;
  // Finishes the part that ends here.
  Result<void> finish_part();

  const ByteSource& expected_;
  std::uint64_t position_ = 0;
  std::vector<std::byte> buffer_;
  std::vector<Part> parts_;  // by position
  std::size_t n_finished_ = 0;
  std::optional<BoundCheck> check_;   // of the part that was begun
  std::vector<std::byte> cut_value_;  // the first bytes of a value whose rest is to come
  TargetTotals totals_;
};

}  // namespace cfck::tools
