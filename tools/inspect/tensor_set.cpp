#include "tools/inspect/tensor_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>
#include <utility>

#include "base/glob.hpp"
#include "base/hashing/hashing.hpp"
#include "base/text.hpp"
#include "cfck/safetensors.hpp"
#include "model/model_folder.hpp"
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

Result<void> TensorSet::add_cfck(OpenFile& file, const Limits& limits) {
  DecodeOptions decode;
  decode.limits = limits;
  CFCK_TRY_ASSIGN(Reader reader, Reader::open(*file.source, decode));
  const auto records = reader.records();
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    if (record.hidden) continue;
    StoredTensor tensor;
    tensor.name = record.name;
    tensor.dtype = record.dtype;
    tensor.shape = record.shape;
    tensor.n_elems = record.n_elems;
    tensor.n_bytes = record.decoded_bytes;
    tensor.file = files_.size();
    tensor.record = i;
    tensor.chunk_elems = record.chunk_elems;
    tensor.error = record.error;
    tensor.bound_rows = bound_rows(record, records);
    tensor.once_shape = record.shape;
    for (std::size_t axis = 0; axis < record.strides.size(); ++axis) {
      if (record.strides[axis] == 0 && record.shape[axis] > 1) tensor.once_shape[axis] = 1;
    }
    CFCK_TRY_ASSIGN(tensor.n_once, n_elems(tensor.once_shape));
    tensors_.push_back(std::move(tensor));
  }
  metadata_.insert(reader.metadata().begin(), reader.metadata().end());
  file.max_decoded_bytes = limits.max_decoded_bytes;
  if (file.max_decoded_bytes == 0) {
    file.max_decoded_bytes =
        std::max(std::uint64_t{16} << 30, std::min(reader.file_bytes(), UINT64_MAX / 64) * 64);
  }
  file.alias_bytes = std::make_unique<std::atomic<std::uint64_t>>(0);
  file.reader.emplace(std::move(reader));
  return {};
}

Result<void> TensorSet::add_safetensors(OpenFile& file) {
  CFCK_TRY_ASSIGN(const SafetensorsHeader header, read_safetensors_header(*file.source));
  for (const SafetensorsEntry& entry : header.entries) {
    StoredTensor tensor;
    tensor.name = entry.name;
    tensor.dtype = entry.dtype;
    tensor.shape = entry.shape;
    CFCK_TRY_ASSIGN(tensor.n_elems, n_elems(entry.shape));
    tensor.once_shape = entry.shape;
    tensor.n_once = tensor.n_elems;
    tensor.n_bytes = entry.n_bytes;
    tensor.file = files_.size();
    tensor.offset_bytes = entry.offset_bytes;
    tensors_.push_back(std::move(tensor));
  }
  for (const SafetensorsTie& tie : header.ties) {
    StoredTensor tensor = tensors_[tensors_.size() - header.entries.size() + tie.entry];
    tensor.name = tie.name;
    ties_.push_back(std::move(tensor));
  }
  metadata_.insert(header.metadata.begin(), header.metadata.end());
  return {};
}

Result<void> TensorSet::add_file(const std::string& path, const Limits& limits) {
  OpenFile file;
  file.path = path;
  CFCK_TRY_ASSIGN(file.source, open_file(path));
  CFCK_TRY_ASSIGN(const FileKind kind, file_kind(*file.source));
  CFCK_TRY(kind == FileKind::kCfck ? add_cfck(file, limits) : add_safetensors(file));
  files_.push_back(std::move(file));
  return {};
}

Result<void> TensorSet::sort_names() {
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [&](std::size_t a, std::size_t b) { return tensors_[a].name < tensors_[b].name; });
  for (std::size_t i = 1; i < by_name_.size(); ++i) {
    const StoredTensor& first = tensors_[by_name_[i - 1]];
    const StoredTensor& second = tensors_[by_name_[i]];
    if (first.name != second.name) continue;
    return Error{ErrorCode::kCorrupt,
                 "two shards have a tensor of this name: " + escaped(files_[first.file].path) +
                     " and " + escaped(files_[second.file].path),
                 first.name,
                 {}};
  }
  return {};
}

Result<TensorSet> TensorSet::open(const std::string& path, const Limits& limits) {
  TensorSet set;
  const FolderWatch watch(path);
  CFCK_TRY_ASSIGN(const auto paths, tensor_files(path));
  for (const std::string& file : paths) {
    if (const auto added = set.add_file(file, limits); !added)
      return with_path(added.error(), file);
  }
  CFCK_TRY(watch.check());
  CFCK_TRY(set.sort_names());
  if (set.ties_.empty()) return set;
  // Each shard may have the metadata of all, and another one the tensor itself.
  std::set<std::string> tied;
  for (StoredTensor& tensor : set.ties_) {
    if (set.find(tensor.name) == nullptr && tied.insert(tensor.name).second) {
      set.tensors_.push_back(std::move(tensor));
    }
  }
  set.ties_.clear();
  CFCK_TRY(set.sort_names());
  return set;
}

const StoredTensor* TensorSet::find(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](std::size_t i, std::string_view key) { return tensors_[i].name < key; });
  if (found == by_name_.end() || tensors_[*found].name != name) return nullptr;
  return &tensors_[*found];
}

bool TensorSet::has_file(const std::string& path) const {
  return std::any_of(files_.begin(), files_.end(), [&](const OpenFile& file) {
    std::error_code ignored;
    return std::filesystem::equivalent(file.path, path, ignored);
  });
}

const Reader* TensorSet::reader_of(const StoredTensor& tensor) const {
  const OpenFile& file = files_[tensor.file];
  return file.reader ? &*file.reader : nullptr;
}

Result<void> TensorSet::read(const StoredTensor& tensor, std::uint64_t first_elem,
                             std::uint64_t n_elems, MutableBytes out) const {
  const OpenFile& file = files_[tensor.file];
  const auto read_here = [&]() -> Result<void> {
    if (file.reader) {
      return file.reader->read_elements(file.reader->records()[tensor.record], first_elem, n_elems,
                                        out);
    }
    const std::uint64_t first_byte = first_elem * bits_per_element(tensor.dtype) / 8;
    return file.source->read_at(tensor.offset_bytes + first_byte, out);
  };
  if (const auto done = read_here(); !done) return with_path(done.error(), file.path);
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
    return Error{ErrorCode::kUnsupported, "a dtype of a newer version of cfck", tensor.name, {}};
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
  const OpenFile& file = files_[tensor.file];
  const auto done =
      file.reader->read_slice(file.reader->records()[tensor.record], starts, stops, out);
  return done ? Result<void>() : with_path(done.error(), file.path);
}

Result<void> TensorSet::check_bytes(const StoredTensor& tensor, std::uint64_t n_bytes) const {
  const OpenFile& file = files_[tensor.file];
  if (!file.reader || n_bytes <= file.max_decoded_bytes) return {};
  Error error{ErrorCode::kLimitExceeded,
              fmt::format("the tensor has {} bytes, more than the {} allowed; raise the limit "
                          "max_decoded_bytes to read it",
                          n_bytes, file.max_decoded_bytes),
              tensor.name,
              {}};
  return with_path(std::move(error), file.path);
}

Result<void> TensorSet::check_alias_bytes(const StoredTensor& tensor, std::uint64_t n_bytes) const {
  const OpenFile& file = files_[tensor.file];
  if (!file.reader || file.reader->records()[tensor.record].kind != RecordKind::kAlias) return {};
  CFCK_TRY(check_bytes(tensor, n_bytes));
  const std::uint64_t total_bytes = file.alias_bytes->fetch_add(n_bytes) + n_bytes;
  if (total_bytes <= file.max_decoded_bytes) return {};
  Error error{ErrorCode::kLimitExceeded,
              fmt::format("with this view, {} bytes would be read of views of other tensors, more "
                          "than the {} allowed; raise the limit max_decoded_bytes to read them",
                          total_bytes, file.max_decoded_bytes),
              tensor.name,
              {}};
  return with_path(std::move(error), file.path);
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
  const OpenFile& file = files_[tensor.file];
  if (file.reader) return file.reader->records()[tensor.record].digest;
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
  return Error{ErrorCode::kInvalidArgument, "cancelled", {}, {}};
}

Error no_such_tensor(const TensorSet& tensors, std::string_view name) {
  std::vector<std::string_view> names;
  names.reserve(tensors.tensors().size());
  for (const StoredTensor& tensor : tensors.tensors()) names.push_back(tensor.name);
  std::string message = "there is no tensor '" + escaped(name) + "'";
  const auto nearest = nearest_names(names, name);
  if (names.empty()) message += "; the file has none at all";
  for (std::size_t i = 0; i < nearest.size(); ++i) {
    message += (i == 0 ? "; did you mean '" : "', '") + escaped(nearest[i]);
  }
  if (!nearest.empty()) message += "'?";
  if (!names.empty() && nearest.empty()) message += "; cfck-inspect lists the names";
  return {ErrorCode::kNotFound, message, {}, {}};
}

}  // namespace cfck::tools
