#include "tools/convert/compare/tensor_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/measure/bound_check.hpp"
#include "tools/output/loss.hpp"

namespace cfck::tools {
namespace {

constexpr std::uint64_t kPieceElems = std::uint64_t{1} << 20;

Error differs(const std::string& name, const std::string& what) {
  return wrong_checksum(what +
                        "; the output was discarded. Check the memory and the disk of this "
                        "machine, then try again")
      .in_record(name);
}

class Comparison {
 public:
  Comparison(const TensorArchive& input, const TensorArchive& output,
             std::span<const KeptLossless> kept_lossless,
             const std::function<bool(std::uint64_t)>& progress)
      : input_(input), output_(output), progress_(progress) {
    for (const KeptLossless& kept : kept_lossless) {
      if (kept.in_target) lossless_in_target_.insert(kept.name);
    }
  }

  Result<std::optional<TargetTotals>> run() {
    for (const ArchiveTensor& tensor : input_.tensors()) {
      if (!tensor.hidden) CFCK_TRY(compare(tensor));
    }
    const auto tensors = output_.tensors();
    const bool is_incomplete = std::any_of(tensors.begin(), tensors.end(), &is_hidden_in_target);
    return is_incomplete ? std::nullopt : std::optional(totals_);
  }

 private:
  static bool is_hidden_in_target(const ArchiveTensor& tensor) {
    return tensor.hidden && tensor.record != nullptr && tensor.record->error &&
           tensor.record->error->quality && tensor.record->error->quality->target.whole_file;
  }

  // The tensor of an .npy file has another name there.
  const ArchiveTensor* counterpart_of(const ArchiveTensor& tensor) const {
    const bool has_one = output_.files().front().format == "npy";
    return has_one ? &output_.tensors().front() : output_.find(tensor.name);
  }

  Result<void> compare(const ArchiveTensor& tensor) {
    const ArchiveTensor* const found = counterpart_of(tensor);
    if (found == nullptr || found->dtype != tensor.dtype || found->shape != tensor.shape) {
      return differs(tensor.name, "the output has not got this tensor");
    }
    if (tensor.n_elems == 0) return {};
    const Record* const record = found->record;
    const bool counts = record != nullptr && record->kind != RecordKind::kAlias &&
                        lossless_in_target_.contains(tensor.name);
    std::optional<BoundCheck> check;
    if (record != nullptr && (record->error || counts)) check.emplace(check_of(tensor, *found));
    CFCK_TRY(compare_values(tensor, *found, check));
    return check ? judge(*record, *check, counts) : Result<void>();
  }

  // A view is held to the largest error of what it is a part of, whose range it has not got.
  BoundCheck check_of(const ArchiveTensor& tensor, const ArchiveTensor& found) const {
    const Record& record = *found.record;
    ErrorBound bound{BoundKind::kNone};
    if (record.error) {
      bound = record.kind == RecordKind::kAlias
                  ? ErrorBound{BoundKind::kAbs, false, record.error->max_abs_error}
                  : record.error->bound;
    }
    const Reader& reader = *output_.files()[found.file].reader;
    return {bound, tensor.dtype, tensor.n_elems, bound_rows(record, reader.records()),
            [this, &tensor](std::uint64_t first, std::uint64_t count, MutableBytes out) {
              return input_.read_elements(tensor, first, count, out);
            }};
  }

  Result<void> compare_values(const ArchiveTensor& tensor, const ArchiveTensor& found,
                              std::optional<BoundCheck>& check) {
    const bool is_lossy = found.record != nullptr && found.record->error;
    const std::uint64_t piece =
        std::max({kPieceElems, tensor.chunk_elems, found.chunk_elems}) / 8 * 8;
    const std::uint64_t bits = bits_per_element(tensor.dtype);
    for (std::uint64_t first = 0; first < tensor.n_elems; first += piece) {
      const std::uint64_t count = std::min(piece, tensor.n_elems - first);
      before_.resize((count * bits + 7) / 8);
      after_.resize(before_.size());
      CFCK_TRY(input_.read_elements(tensor, first, count, before_));
      CFCK_TRY(output_.read_elements(found, first, count, after_));
      if (!is_lossy && std::memcmp(before_.data(), after_.data(), before_.size()) != 0) {
        return differs(tensor.name, "the written data does not decode to the input");
      }
      if (check) {
        CFCK_TRY(check->add(after_, before_));
        if (!check->kept()) {
          return differs(tensor.name,
                         fmt::format("a value exceeds the maximum error {}, or is no longer NaN or "
                                     "infinite",
                                     bound_text(found.record->error->bound)));
        }
      }
      done_bytes_ += before_.size();
      if (!progress_(done_bytes_)) return cancelled();
    }
    return {};
  }

  Result<void> judge(const Record& record, const BoundCheck& check, bool counts) {
    const bool is_own = record.kind != RecordKind::kAlias && record.kind != RecordKind::kDuplicate;
    TargetTotals totals = check.totals();
    totals.n_elems = record.n_elems;
    totals.stored_bytes = record.stored_bytes;
    const bool has_target = record.error && record.error->quality && is_own;
    if (counts || (has_target && record.error->quality->target.whole_file)) totals_.add(totals);
    if (!record.error || record.kind == RecordKind::kAlias) return {};
    if (check.max_abs_error() != record.error->max_abs_error) {
      return differs(record.name,
                     fmt::format("the worst error is {}, not {} as recorded in the index",
                                 check.max_abs_error(), record.error->max_abs_error));
    }
    return has_target && !record.error->quality->target.whole_file
               ? check_target(record.error->quality->target, totals, record.name)
               : Result<void>();
  }

  const TensorArchive& input_;
  const TensorArchive& output_;
  const std::function<bool(std::uint64_t)>& progress_;
  std::set<std::string_view> lossless_in_target_;
  std::vector<std::byte> before_, after_;
  std::uint64_t done_bytes_ = 0;
  TargetTotals totals_;
};

}  // namespace

Result<std::optional<TargetTotals>> compare_tensors(
    const TensorArchive& input, const TensorArchive& output,
    std::span<const KeptLossless> kept_lossless,
    const std::function<bool(std::uint64_t done_bytes)>& progress) {
  return Comparison(input, output, kept_lossless, progress).run();
}

}  // namespace cfck::tools
