#include "interop/stored/archive.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/bytes.hpp"
#include "base/overlap.hpp"
#include "base/run_guarded.hpp"
#include "cfck/safetensors.hpp"
#include "format/write/sharing/alias_plan.hpp"
#include "interop/stored/boxes.hpp"
#include "interop/stored/gather.hpp"
#include "interop/zip/verify.hpp"

namespace cfck::interop {
namespace {

constexpr std::uint64_t kMinDecodedBytes = std::uint64_t{16} << 30;
constexpr std::uint64_t kDecodedPerFileByte = 64;

// The bytes of a number: complex elements have two.
std::size_t number_bytes(DType dtype) {
  return dtype == DType::kC64 ? 4 : bits_per_element(dtype) / 8;
}

void swap_numbers(MutableBytes bytes, std::size_t n_bytes) {
  for (std::size_t at = 0; at + n_bytes <= bytes.size(); at += n_bytes) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + n_bytes));
  }
}

// Changes the signs of numbers. Those of conjugates are pairs: in elements of C64, or in a last
// dimension of two, of which `first` is the first and `n` the number that a box has.
void change_signs(const StoredTensor& tensor, std::uint64_t first, std::uint64_t n,
                  MutableBytes bytes) {
  const std::size_t n_bytes = number_bytes(tensor.dtype);
  std::uint64_t part = first;  // 0: the real one
  for (std::size_t at = n_bytes; at <= bytes.size(); at += n_bytes) {
    const bool is_imaginary = tensor.conjugated && part == 1;
    // The sign is the highest bit of the last byte.
    if (tensor.negated != is_imaginary) bytes[at - 1] ^= std::byte{0x80};
    part = n == 2 ? 1 - part : part;
  }
}

// True where the same bytes have the same values in both.
bool has_same_values(const StoredTensor& a, const StoredTensor& b) {
  return a.negated == b.negated && a.conjugated == b.conjugated;
}

// Reads the box starts[i] <= index i < stops[i].
Result<void> read_box(const ByteSource& source, const StoredTensor& tensor,
                      std::span<const std::uint64_t> starts, std::span<const std::uint64_t> stops,
                      MutableBytes out) {
  StridedBox box;
  box.elem_bytes = bits_per_element(tensor.dtype) / 8;
  box.offset_bytes = tensor.offset_bytes;
  box.strides = tensor.strides;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    box.shape.push_back(stops[i] - starts[i]);
    box.offset_bytes += starts[i] * tensor.strides[i] * box.elem_bytes;
  }
  CFCK_TRY(gather(source, box, out));
  if (tensor.big_endian) swap_numbers(out, number_bytes(tensor.dtype));
  if (tensor.negated || tensor.conjugated) {
    const bool in_elements = tensor.dtype == DType::kC64 || !tensor.conjugated;
    const std::uint64_t first = in_elements ? 0 : starts.back();
    change_signs(tensor, first, in_elements ? 2 : stops.back() - first, out);
  }
  return {};
}

}  // namespace

StoredArchive::StoredArchive(std::unique_ptr<ByteSource> source, std::string_view format,
                             const DecodeOptions& options)
    : source_(std::move(source)), threads_(options.threads) {
  std::uint64_t max_bytes = options.limits.max_decoded_bytes;
  if (max_bytes == 0) {
    max_bytes = std::max(kMinDecodedBytes, kDecodedPerFileByte * source_->size());
  }
  files_.push_back({source_->name(), format, source_->size(), max_bytes, nullptr, source_.get()});
}

Result<void> StoredArchive::add(StoredTensor tensor) {
  ArchiveTensor added;
  added.name = tensor.name;
  added.dtype = tensor.dtype;
  added.shape = tensor.shape;
  auto size = n_bytes(tensor.dtype, tensor.shape);
  if (!size) return std::move(size).error().in_record(tensor.name);
  added.n_bytes = *size;
  Place place;
  CFCK_TRY_ASSIGN(const std::uint64_t covered, format::covered_elems(tensor.shape, tensor.strides));
  const unsigned bits = bits_per_element(tensor.dtype);
  place.covered_bytes = covered / 8 * bits + covered % 8 * bits / 8;
  const bool is_row_major =
      format::is_contiguous(tensor.shape, tensor.strides) || added.n_bytes == 0;
  const bool is_plain = !tensor.negated && !tensor.conjugated &&
                        (!tensor.big_endian || number_bytes(tensor.dtype) == 1);
  place.contiguous = is_row_major && is_plain;
  if (place.contiguous && tensor.source == nullptr) added.offset_bytes = tensor.offset_bytes;
  added.stored_bytes = std::min(place.covered_bytes, added.n_bytes);
  added.base = tensors_.size();
  tensors_.push_back(std::move(added));
  place.tensor = std::move(tensor);
  places_.push_back(std::move(place));
  return {};
}

void StoredArchive::tie_tensors(const std::vector<std::size_t>& families) {
  const auto first_byte = [&](std::size_t i) { return places_[i].tensor.offset_bytes; };
  const auto end_byte = [&](std::size_t i) { return first_byte(i) + places_[i].covered_bytes; };
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].n_bytes > 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(families[a], first_byte(a), a) < std::tuple(families[b], first_byte(b), b);
  });
  for (std::size_t first = 0; first < order.size();) {
    std::uint64_t end = end_byte(order[first]);
    std::size_t last = first + 1;
    while (last < order.size() && families[order[last]] == families[order[first]] &&
           first_byte(order[last]) < end) {
      end = std::max(end, end_byte(order[last++]));
    }
    tie_family({order.begin() + static_cast<std::ptrdiff_t>(first),
                order.begin() + static_cast<std::ptrdiff_t>(last)},
               first_byte(order[first]), end);
    first = last;
  }
}

void StoredArchive::tie_family(std::vector<std::size_t> family, std::uint64_t start,
                               std::uint64_t end) {
  std::sort(family.begin(), family.end());
  const auto base = std::find_if(family.begin(), family.end(), [&](std::size_t i) {
    return places_[i].contiguous && places_[i].tensor.offset_bytes == start &&
           places_[i].covered_bytes == end - start;
  });
  if (base == family.end()) return tie_equals(family);
  for (const std::size_t i : family) {
    // Bytes seen as another dtype, or between its elements, have no strides in the base.
    const std::uint64_t distance = places_[i].tensor.offset_bytes - start;
    const std::uint64_t bits = bits_per_element(tensors_[i].dtype);
    if (i == *base || tensors_[i].dtype != tensors_[*base].dtype || distance * 8 % bits != 0 ||
        !has_same_values(places_[i].tensor, places_[*base].tensor)) {
      continue;
    }
    tie(i, *base, distance * 8 / bits,
        format::normalised_strides(tensors_[i].shape, places_[i].tensor.strides));
  }
  tie_equals(family);
}

// Tensors that are no views of a base, but of which several are one view.
void StoredArchive::tie_equals(const std::vector<std::size_t>& family) {
  const auto key = [&](std::size_t i) {
    const StoredTensor& tensor = places_[i].tensor;
    return std::tuple(tensor.offset_bytes, tensor.dtype, tensor.negated, tensor.conjugated,
                      tensor.shape, format::normalised_strides(tensor.shape, tensor.strides));
  };
  std::map<decltype(key(0)), std::size_t> first;
  for (const std::size_t i : family) {
    if (tensors_[i].sharing != Sharing::kNone) continue;
    const auto [found, is_new] = first.try_emplace(key(i), i);
    if (!is_new) tie(i, found->second, 0, format::contiguous_strides(tensors_[i].shape));
  }
}

void StoredArchive::tie(std::size_t view, std::size_t base, std::uint64_t element_offset,
                        std::vector<std::uint64_t> strides) {
  ArchiveTensor& tensor = tensors_[view];
  tensor.sharing = Sharing::kMemory;
  tensor.base = base;
  tensor.stored_bytes = 0;
  tensor.element_offset = element_offset;
  tensor.strides = std::move(strides);
}

Result<void> StoredArchive::read_many(std::span<const ArchiveRead> reads,
                                      const ReadProgress& progress) const {
  return run_guarded([&]() -> Result<void> {
    std::vector<SafetensorsEntry> entries(reads.size());
    std::vector<SafetensorsRead> whole;
    std::uint64_t total_bytes = 0;
    std::uint64_t done_bytes = 0;
    for (std::size_t i = 0; i < reads.size(); ++i) {
      CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(reads[i].tensor));
      if (!checked_add(total_bytes, listed->n_bytes, total_bytes)) total_bytes = ~std::uint64_t{0};
      CFCK_TRY(check_decoded_bytes(*listed, total_bytes));
      const Place& place = places_[listed->index];
      if (place.contiguous && place.tensor.source == nullptr) {
        entries[i] = {listed->name, listed->dtype, listed->shape, place.tensor.offset_bytes,
                      listed->n_bytes};
        whole.push_back({&entries[i], reads[i].out});
        continue;
      }
      CFCK_TRY(read_elements(*listed, 0, listed->n_elems, reads[i].out));
      done_bytes += listed->n_bytes;
      if (progress && !progress(done_bytes, listed->name)) return cancelled();
    }
    ReadProgress shifted;
    if (progress) {
      shifted = [&](std::uint64_t more_bytes, std::string_view name) {
        return progress(done_bytes + more_bytes, name);
      };
    }
    return read_safetensors(*source_, whole, shifted, threads_);
  });
}

Result<void> StoredArchive::read_elements(const ArchiveTensor& tensor, std::uint64_t first_elem,
                                          std::uint64_t n_elems, MutableBytes out) const {
  return run_guarded([&]() -> Result<void> {
    CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
    CFCK_TRY(check_elements(*listed, first_elem, n_elems, out));
    if (n_elems == 0) return {};
    CFCK_TRY(check_apart(out, *source_, listed->name));
    const Place& place = places_[listed->index];
    const std::uint64_t bits = bits_per_element(listed->dtype);
    if (place.contiguous) {
      const std::uint64_t first_byte = first_elem / 8 * bits + first_elem % 8 * bits / 8;
      return source_of(place).read_at(place.tensor.offset_bytes + first_byte, out);
    }
    const std::uint64_t elem_bytes = bits / 8;
    std::uint64_t done_bytes = 0;
    for (const Box& box : boxes_of(listed->shape, first_elem, n_elems)) {
      std::uint64_t box_bytes = elem_bytes;
      for (std::size_t i = 0; i < box.starts.size(); ++i) {
        box_bytes *= box.stops[i] - box.starts[i];
      }
      CFCK_TRY(read_box(source_of(place), place.tensor, box.starts, box.stops,
                        out.subspan(done_bytes, box_bytes)));
      done_bytes += box_bytes;
    }
    return {};
  });
}

Result<void> StoredArchive::read_slice(const ArchiveTensor& tensor,
                                       std::span<const std::uint64_t> starts,
                                       std::span<const std::uint64_t> stops,
                                       MutableBytes out) const {
  return run_guarded([&]() -> Result<void> {
    CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
    CFCK_TRY(check_decoded_bytes(*listed, out.size()));
    CFCK_TRY(check_apart(out, *source_, listed->name));
    const auto refuse = [&](const char* message) {
      return invalid_argument(message).in_record(listed->name);
    };
    if (starts.size() != listed->shape.size() || stops.size() != starts.size()) {
      return refuse("a slice needs a start and a stop for each dimension");
    }
    const Place& place = places_[listed->index];
    if (bits_per_element(listed->dtype) < 8) {
      const SafetensorsEntry entry{listed->name, listed->dtype, listed->shape,
                                   place.tensor.offset_bytes, listed->n_bytes};
      return read_safetensors_slice(source_of(place), entry, starts, stops, out);
    }
    std::uint64_t box_bytes = bits_per_element(listed->dtype) / 8;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      if (starts[i] > stops[i] || stops[i] > listed->shape[i]) {
        return refuse("the slice reaches beyond the tensor");
      }
      box_bytes *= stops[i] - starts[i];
    }
    if (out.size() != box_bytes) return refuse("the memory for the slice does not have its size");
    return read_box(source_of(place), place.tensor, starts, stops, out);
  });
}

Result<VerifyReport> StoredArchive::verify(VerifyLevel level, const ReadProgress& progress) const {
  if (members_.empty()) return TensorArchive::verify(level, progress);
  return run_guarded([&] { return verify_zip(*source_, members_, progress); });
}

}  // namespace cfck::interop
