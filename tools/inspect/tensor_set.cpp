#include "tools/inspect/tensor_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/glob.hpp"
#include "base/hashing/hashing.hpp"
#include "base/text.hpp"
#include "tools/measure/bound_check.hpp"
#include "tools/output/console.hpp"
#include "tools/output/interrupt.hpp"
#include "tools/output/nearest_names.hpp"

namespace cfck::tools {
namespace {

constexpr std::uint64_t kPieceElems = std::uint64_t{1} << 21;

}  // namespace

std::string type_text(const StoredTensor& tensor) {
  return fmt::format("{} [{}]", dtype_name(tensor.dtype), fmt::join(tensor.shape, ","));
}

Result<void> TensorSet::list() {
  const auto all = archive_->tensors();
  places_.resize(all.size());
  for (const ArchiveTensor& listed : all) {
    if (listed.hidden) continue;
    StoredTensor tensor{listed, {}, 1, listed.shape, listed.n_elems};
    for (std::size_t axis = 0; axis < tensor.strides.size(); ++axis) {
      if (tensor.strides[axis] == 0 && tensor.shape[axis] > 1) tensor.once_shape[axis] = 1;
    }
    CFCK_TRY_ASSIGN(tensor.n_once, n_elems(tensor.once_shape));
    if (const Reader* const reader = reader_of(tensor); tensor.record != nullptr) {
      tensor.error = tensor.record->error;
      tensor.bound_rows = bound_rows(*tensor.record, reader->records());
    }
    places_[listed.index] = tensors_.size();
    tensors_.push_back(std::move(tensor));
  }
  view_bytes_ = std::make_unique<std::atomic<std::uint64_t>[]>(archive_->files().size());
  claimed_bytes_ = std::make_unique<std::atomic<std::uint64_t>[]>(archive_->files().size());
  is_claimed_ = std::make_unique<std::atomic<bool>[]>(all.size());
  return {};
}

Result<TensorSet> TensorSet::open(const std::string& path, const ReadingOptions& reading) {
  ArchiveOptions options;
  CFCK_TRY_ASSIGN(options.decode, reading.decode());
  TensorSet set;
  CFCK_TRY_ASSIGN(set.archive_, TensorArchive::open(path, options));
  CFCK_TRY(set.list());
  return set;
}

const StoredTensor* TensorSet::find(std::string_view name) const {
  const ArchiveTensor* const found = archive_->find(name);
  return found == nullptr ? nullptr : &tensors_[places_[found->index]];
}

bool TensorSet::has_file(const std::string& path) const {
  const auto files = archive_->files();
  return std::any_of(files.begin(), files.end(), [&](const ArchiveFile& file) {
    std::error_code ignored;
    return std::filesystem::equivalent(file.path, path, ignored);
  });
}

std::string TensorSet::base_name(const StoredTensor& tensor) const {
  const auto all = archive_->tensors();
  const bool shares = tensor.sharing != Sharing::kNone && tensor.base < all.size();
  return shares ? all[tensor.base].name : std::string();
}

Result<void> TensorSet::read(const StoredTensor& tensor, std::uint64_t first_elem,
                             std::uint64_t n_elems, MutableBytes out) const {
  if (const auto done = archive_->read_elements(tensor, first_elem, n_elems, out); !done) {
    return with_path(done.error(), path_of(tensor));
  }
  if (listener_) listener_(out.size());
  return {};
}

std::uint64_t piece_elems(const StoredTensor& tensor) {
  // Rounded up to whole chunks, a chunk is seldom decoded twice.
  const std::uint64_t chunk_elems =
      std::clamp(tensor.chunk_elems, std::uint64_t{1}, 16 * kPieceElems);
  const std::uint64_t whole_chunks = (kPieceElems + chunk_elems - 1) / chunk_elems * chunk_elems;
  return (whole_chunks + kLeafElems - 1) / kLeafElems * kLeafElems;
}

Result<void> TensorSet::read_all(const StoredTensor& tensor, const TakeElements& take) const {
  const unsigned bits = bits_per_element(tensor.dtype);
  if (bits == 0) {
    return unsupported("a dtype of a newer version of cfck").in_record(tensor.name);
  }
  CFCK_TRY(check_alias_bytes(tensor, tensor.n_bytes));
  const std::uint64_t most = std::min(piece_elems(tensor), tensor.n_elems);
  std::vector<std::byte> buffer((most * bits + 7) / 8);
  for (std::uint64_t first = 0; first < tensor.n_elems; first += most) {
    CFCK_TRY(check_interrupt());
    const std::uint64_t count = std::min(most, tensor.n_elems - first);
    const auto bytes = std::span(buffer).first((count * bits + 7) / 8);
    CFCK_TRY(read(tensor, first, count, bytes));
    CFCK_TRY(take(bytes));
  }
  return {};
}

Result<void> TensorSet::read_once(const StoredTensor& tensor, const TakeElements& take) const {
  if (!tensor.repeats()) return read_all(tensor, take);
  const unsigned bits = bits_per_element(tensor.dtype);
  CFCK_TRY(check_alias_bytes(tensor, tensor.n_once / 8 * bits));
  std::vector<std::byte> buffer((std::min(kPieceElems, tensor.n_once) * bits + 7) / 8);
  return for_each_box(tensor.once_shape, kPieceElems,
                      [&](std::span<const std::uint64_t> starts,
                          std::span<const std::uint64_t> stops, std::uint64_t n) -> Result<void> {
                        CFCK_TRY(check_interrupt());
                        const auto bytes = std::span(buffer).first((n * bits + 7) / 8);
                        CFCK_TRY(read_box(tensor, starts, stops, bytes));
                        return take(bytes);
                      });
}

Result<void> TensorSet::read_box(const StoredTensor& tensor, std::span<const std::uint64_t> starts,
                                 std::span<const std::uint64_t> stops, MutableBytes out) const {
  const auto done = archive_->read_slice(tensor, starts, stops, out);
  return done ? Result<void>() : with_path(done.error(), path_of(tensor));
}

namespace {

// Whether a tensor of another format may have far more elements than its file has bytes for.
bool is_claim(const StoredTensor& tensor) {
  return !tensor.offset_bytes || tensor.sharing == Sharing::kMemory;
}

}  // namespace

Result<void> TensorSet::check_bytes(const StoredTensor& tensor, std::uint64_t n_bytes) const {
  const std::uint64_t max_bytes = file_of(tensor).max_decoded_bytes;
  if (max_bytes == 0 || n_bytes <= max_bytes) return {};
  if (tensor.record == nullptr && !is_claim(tensor)) return {};
  Error error{ErrorCode::kLimitExceeded,
              fmt::format("the tensor has {} bytes, more than the {} allowed; raise the limit "
                          "max_decoded_bytes to read it",
                          n_bytes, max_bytes),
              tensor.name,
              {}};
  return with_path(std::move(error), path_of(tensor));
}

Result<void> TensorSet::check_alias_bytes(const StoredTensor& tensor, std::uint64_t n_bytes) const {
  if (tensor.record == nullptr) return check_claim(tensor, n_bytes);
  if (tensor.sharing != Sharing::kMemory) return {};
  CFCK_TRY(check_bytes(tensor, n_bytes));
  const std::uint64_t total_bytes = view_bytes_[tensor.file].fetch_add(n_bytes) + n_bytes;
  const std::uint64_t max_bytes = file_of(tensor).max_decoded_bytes;
  if (total_bytes <= max_bytes) return {};
  Error error{
      ErrorCode::kLimitExceeded,
      fmt::format("with this view, {} bytes would be read through views of other tensors, "
                  "more than the {} allowed; raise the limit max_decoded_bytes to read them",
                  total_bytes, max_bytes),
      tensor.name,
      {}};
  return with_path(std::move(error), path_of(tensor));
}

Result<void> TensorSet::check_claim(const StoredTensor& tensor, std::uint64_t n_bytes) const {
  if (!is_claim(tensor)) return {};
  CFCK_TRY(check_bytes(tensor, n_bytes));
  if (is_claimed_[tensor.index].exchange(true)) return {};
  const std::uint64_t total_bytes = claimed_bytes_[tensor.file].fetch_add(n_bytes) + n_bytes;
  const std::uint64_t max_bytes = file_of(tensor).max_decoded_bytes;
  if (max_bytes == 0 || total_bytes <= max_bytes) return {};
  Error error{ErrorCode::kLimitExceeded,
              fmt::format("with this tensor, {} bytes would be read of the file, more than the {} "
                          "allowed; raise the limit max_decoded_bytes to read them",
                          total_bytes, max_bytes),
              tensor.name,
              {}};
  return with_path(std::move(error), path_of(tensor));
}

Result<void> for_each_box(const Shape& shape, std::uint64_t most_elems, const TakeBox& take) {
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) return {};
  // The boxes are runs of `axis` with all of the axes inside of it.
  std::size_t axis = shape.size();
  std::uint64_t inner = 1;
  while (axis > 0 && shape[axis - 1] <= most_elems / inner) inner *= shape[--axis];
  std::vector<std::uint64_t> starts(shape.size());
  std::vector<std::uint64_t> stops(shape.begin(), shape.end());
  if (axis == 0) return take(starts, stops, inner);
  --axis;
  for (std::size_t i = 0; i < axis; ++i) stops[i] = 1;
  while (true) {
    for (starts[axis] = 0; starts[axis] < shape[axis]; starts[axis] = stops[axis]) {
      stops[axis] = std::min(shape[axis], starts[axis] + most_elems / inner);
      CFCK_TRY(take(starts, stops, (stops[axis] - starts[axis]) * inner));
    }
    std::size_t i = axis;
    while (i > 0 && stops[i - 1] == shape[i - 1]) {
      --i;
      starts[i] = 0;
      stops[i] = 1;
    }
    if (i == 0) return {};
    ++starts[i - 1];
    ++stops[i - 1];
  }
}

Result<Digest> TensorSet::digest(const StoredTensor& tensor) const {
  if (tensor.record != nullptr) return tensor.record->digest;
  DigestBuilder builder(tensor.n_bytes);
  std::uint64_t done = 0;
  CFCK_TRY(read_all(tensor, [&](ByteView bytes) -> Result<void> {
    const auto edges = builder.hash_whole_leaves(done, bytes);
    builder.add_edge(done, edges.head);
    builder.add_edge(done + bytes.size() - edges.tail.size(), edges.tail);
    done += bytes.size();
    return {};
  }));
  return builder.finish();
}

bool is_selected(const std::string& name, const std::vector<std::string>& patterns) {
  return patterns.empty() ||
         std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches_glob(pattern, name); });
}

Result<std::vector<const StoredTensor*>> select_tensors(const TensorSet& set,
                                                        const std::vector<std::string>& patterns) {
  const auto all = set.tensors();
  for (const std::string& pattern : patterns) {
    const bool found = std::any_of(all.begin(), all.end(), [&](const StoredTensor& tensor) {
      return matches_glob(pattern, tensor.name);
    });
    if (!found) return no_such_tensor(set, pattern);
  }
  std::vector<const StoredTensor*> selected;
  for (const StoredTensor& tensor : all) {
    if (is_selected(tensor.name, patterns)) selected.push_back(&tensor);
  }
  return selected;
}

Result<void> check_interrupt() {
  if (interrupt_signal() == 0) return {};
  return cancelled();
}

Result<const StoredTensor*> find_original(const TensorSet& reference, const StoredTensor& tensor) {
  const StoredTensor* const original = reference.find(tensor.name);
  if (original == nullptr) {
    return not_found("the reference has no tensor with this name").in_record(tensor.name);
  }
  if (original->dtype != tensor.dtype || original->shape != tensor.shape) {
    return invalid_argument(fmt::format("{} here, {} in the reference: not comparable",
                                        type_text(tensor), type_text(*original)))
        .in_record(tensor.name);
  }
  return original;
}

Error no_such_tensor(const TensorSet& tensors, std::string_view name) {
  std::vector<std::string_view> names;
  names.reserve(tensors.tensors().size());
  for (const StoredTensor& tensor : tensors.tensors()) names.push_back(tensor.name);
  std::string message = "there is no tensor '" + escaped(name) + "'";
  message += names.empty() ? "; the file has no tensors"
                           : did_you_mean(names, name, "cfck inspect lists the names");
  return not_found(message);
}

}  // namespace cfck::tools
