#include "tools/convert/compare/comparing_sink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "tools/output/loss.hpp"

namespace cfck::tools {
namespace {

Error difference(std::uint64_t position) {
  return wrong_checksum(
             "the written data does not decode to the input; the output was discarded. Check the "
             "memory and the disk of this machine, then try again")
      .at_byte(position);
}

Error broken_bound(const std::string& name, const std::string& what, std::uint64_t position) {
  return wrong_checksum(
             what +
             "; the output was discarded. Memory, disk or cfck is at fault: try again, and "
             "report it if the problem persists")
      .in_record(name)
      .at_byte(position);
}

}  // namespace

void ComparingSink::expect_losses(const TensorArchive& plain, const TensorArchive& encoded,
                                  std::span<const KeptLossless> kept_lossless) {
  std::set<std::string_view> lossless_in_target;
  for (const KeptLossless& kept : kept_lossless) {
    if (kept.in_target) lossless_in_target.insert(kept.name);
  }
  for (const ArchiveTensor& tensor : plain.tensors()) {
    if (tensor.sharing != Sharing::kNone || !tensor.offset_bytes) continue;
    const ArchiveTensor* const found = encoded.find(tensor.name);
    const Record* const record = found == nullptr ? nullptr : found->record;
    const bool counts = lossless_in_target.contains(tensor.name);
    if (record == nullptr || record->n_elems == 0 || !(record->error || counts)) continue;
    const bool is_copy = record->kind == RecordKind::kDuplicate;
    const bool has_target = record->error && record->error->quality;
    const Reader& reader = *encoded.files()[found->file].reader;
    parts_.push_back(
        {tensor.name, tensor.dtype, *tensor.offset_bytes, *tensor.offset_bytes + tensor.n_bytes,
         bound_rows(*record, reader.records()), record->error,
         counts || (!is_copy && has_target && record->error->quality->target.whole_file),
         record->stored_bytes});
  }
}

Result<void> ComparingSink::write(ByteView bytes) {
  if (bytes.size() > expected_.size() - position_) return difference(expected_.size());
  while (!bytes.empty()) {
    std::uint64_t limit = expected_.size();
    bool in_part = false;
    bool is_lossy = false;
    if (n_finished_ < parts_.size()) {
      const Part& part = parts_[n_finished_];
      in_part = position_ >= part.begin;
      is_lossy = in_part && part.error;
      limit = in_part ? part.end : part.begin;
    }
    const ByteView piece = bytes.first(std::min<std::uint64_t>(bytes.size(), limit - position_));
    if (!is_lossy) CFCK_TRY(compare_exactly(piece));
    if (in_part) CFCK_TRY(compare_values(piece));
    position_ += piece.size();
    bytes = bytes.subspan(piece.size());
    if (in_part && position_ == limit) CFCK_TRY(finish_part());
  }
  return {};
}

Result<void> ComparingSink::compare_exactly(ByteView bytes) {
  buffer_.resize(bytes.size());
  CFCK_TRY(expected_.read_at(position_, buffer_));
  return std::memcmp(buffer_.data(), bytes.data(), bytes.size()) == 0 ? Result<void>()
                                                                      : difference(position_);
}

BoundCheck ComparingSink::check_of(const Part& part) const {
  const auto read = [this, begin = part.begin, value_bytes = part.value_bytes()](
                        std::uint64_t first, std::uint64_t, MutableBytes out) {
    return expected_.read_at(begin + first * value_bytes, out);
  };
  const std::uint64_t n_elems = (part.end - part.begin) / part.value_bytes();
  return {part.bound(), part.dtype, n_elems, part.n_rows, read};
}

Result<void> ComparingSink::compare_values(ByteView bytes) {
  const Part& part = parts_[n_finished_];
  if (!check_) check_.emplace(check_of(part));
  const std::uint64_t first = position_ - cut_value_.size();
  if (!cut_value_.empty()) {
    cut_value_.insert(cut_value_.end(), bytes.begin(), bytes.end());
    bytes = cut_value_;
  }
  const ByteView whole = bytes.first(bytes.size() / part.value_bytes() * part.value_bytes());
  buffer_.resize(whole.size());
  CFCK_TRY(expected_.read_at(first, buffer_));
  CFCK_TRY(check_->add(whole, buffer_));
  const ByteView rest = bytes.subspan(whole.size());
  cut_value_ = std::vector<std::byte>(rest.begin(), rest.end());
  if (check_->kept()) return {};
  return broken_bound(
      part.name,
      part.bound().kind == BoundKind::kNone
          ? "a NaN or an infinity changed"
          : fmt::format("a value exceeds the maximum error {}", bound_text(part.bound())),
      part.begin + check_->first_beyond() * part.value_bytes());
}

Result<void> ComparingSink::finish_part() {
  const Part& part = parts_[n_finished_++];
  const double measured = check_->max_abs_error();
  TargetTotals totals = check_->totals();
  check_.reset();
  totals.n_elems = (part.end - part.begin) / part.value_bytes();
  totals.stored_bytes = part.stored_bytes;
  if (part.in_plain_target) totals_.add(totals);
  if (!part.error) return {};
  if (measured != part.error->max_abs_error) {
    return broken_bound(part.name,
                        fmt::format("the worst error is {}, not {} as recorded in the index",
                                    measured, part.error->max_abs_error),
                        part.begin);
  }
  const bool has_own_target = part.error->quality && !part.error->quality->target.whole_file;
  return has_own_target ? check_target(part.error->quality->target, totals, part.name)
                        : Result<void>();
}

Result<void> ComparingSink::finish() const {
  return position_ == expected_.size() ? Result<void>() : difference(position_);
}

}  // namespace cfck::tools
