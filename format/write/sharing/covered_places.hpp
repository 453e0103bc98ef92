// The places of a line of elements that a set of views covers, and their order without the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cfck/io.hpp"
#include "format/write/sharing/view_overlap.hpp"

namespace cfck::format {

// The position of a view's elements once the places that no view covers are left out.
struct CompactView {
  std::uint64_t start = 0;
  std::vector<std::uint64_t> strides;  // one for each axis of the view
};

// The places that views cover, in their order. Memory: a quarter of a byte for each step between
// the first place and the last, in units of the largest step that all views have in common.
class CoveredPlaces {
 public:
  // Returns nullopt if that would be much more memory than the views themselves take: `elem_bytes`
  // for each of their elements. Requires: at least one view.
  static std::optional<CoveredPlaces> of(std::span<const StridedRange* const> views,
                                         std::uint64_t elem_bytes);

  // The first place, on the line.
  std::uint64_t start() const { return start_; }
  std::uint64_t n_places() const { return n_places_; }
  // True if every place between the first and the last is covered by some view.
  bool is_dense() const { return is_dense_; }

  // Returns nullopt if no strides describe the view in the covered places. Requires: one of the
  // views.
  std::optional<CompactView> compact(const StridedRange& view) const;

  // Copies the elements at covered places `first` to `first + n`; `data` is that at start().
  void copy(const std::byte* data, std::uint64_t elem_bytes, std::uint64_t first, std::uint64_t n,
            std::byte* out) const;

 private:
  void mark(const StridedRange& view);
  void count();
  std::uint64_t rank(std::uint64_t place) const;

  std::uint64_t start_ = 0;
  std::uint64_t step_ = 1;  // all places are multiples of it from start_ on
  std::uint64_t n_places_ = 0;
  bool is_dense_ = false;
  std::vector<std::uint64_t> bits_;    // one for each step; none if all are covered
  std::vector<std::uint64_t> before_;  // covered places before each word
};

// The covered places of memory, one after the other. Whole bytes per element only.
class CompactSource final : public ByteSource {
 public:
  // `data` is the element at places->start(); it must outlive the source.
  CompactSource(std::shared_ptr<const CoveredPlaces> places, const std::byte* data,
                std::uint64_t elem_bytes)
      : places_(std::move(places)), data_(data), elem_bytes_(elem_bytes) {}

  std::uint64_t size() const override { return places_->n_places() * elem_bytes_; }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override;

 private:
  std::shared_ptr<const CoveredPlaces> places_;
  const std::byte* data_;
  std::uint64_t elem_bytes_;
};

}  // namespace cfck::format
