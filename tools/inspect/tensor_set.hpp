// The tensors of a model, whatever it is stored as: a .cfck file, a safetensors
// file, or a folder with shards of either.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cfck/io.hpp"
#include "cfck/reader.hpp"
#include "model/file_kind.hpp"

namespace cfck::tools {

// A tensor with a name, and where it is.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape;
  std::uint64_t n_elems = 0;
  std::uint64_t n_bytes = 0;  // 0 if the dtype is unknown
  std::size_t file = 0;
  std::size_t record = 0;            // in a .cfck file
  std::uint64_t offset_bytes = 0;    // in a safetensors file
  std::uint64_t chunk_elems = 0;     // 0: can be cut anywhere
  std::optional<RecordError> error;  // of a lossy record
  std::uint64_t bound_rows = 1;      // see bound_rows()
  // Of an alias that repeats elements along some axes (strides of 0): the shape with 1 there, and
  // its elements. Of all others shape and n_elems.
  Shape once_shape;
  std::uint64_t n_once = 0;

  bool repeats() const { return n_once != n_elems; }
};

// "F32 [512,384]"
std::string type_text(const StoredTensor& tensor);

// Takes the bytes of consecutive elements.
using TakeElements = std::function<Result<void>(ByteView bytes)>;

class TensorSet {
 public:
  // Errors: what file_kind, Reader::open and read_safetensors_header report, and
  // kCorrupt for a name that two shards have; each with the path of its file.
  static Result<TensorSet> open(const std::string& path, const Limits& limits);

  // In file order; hidden records have no name and are not among them.
  std::span<const StoredTensor> tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;
  // Of all shards; the first that has a key decides.
  const Metadata& metadata() const { return metadata_; }
  bool has_file(const std::string& path) const;
  // nullptr for a tensor of a safetensors file.
  const Reader* reader_of(const StoredTensor& tensor) const;
  const std::string& path_of(const StoredTensor& tensor) const { return files_[tensor.file].path; }

  // Called by read() with the bytes that it read: for whoever shows progress.
  using ReadListener = std::function<void(std::uint64_t n_bytes)>;
  void listen(ReadListener listener) { listener_ = std::move(listener); }

  // Reads elements [first_elem, first_elem + n_elems). Errors have the path.
  Result<void> read(const StoredTensor& tensor, std::uint64_t first_elem, std::uint64_t n_elems,
                    MutableBytes out) const;
  // Hands on all bytes in order, in pieces of some MB. Fails with "cancelled"
  // when a signal arrives.
  Result<void> read_all(const StoredTensor& tensor, const TakeElements& take) const;
  // The same without the elements that the tensor repeats; in pieces of whole elements.
  Result<void> read_once(const StoredTensor& tensor, const TakeElements& take) const;
  // Reads the box [starts, stops) of a tensor of a .cfck file.
  Result<void> read_box(const StoredTensor& tensor, std::span<const std::uint64_t> starts,
                        std::span<const std::uint64_t> stops, MutableBytes out) const;
  // An alias of a small record may have very many elements, so that reading them all would never
  // end. Error: kLimitExceeded where `n_bytes` are more than one call may return.
  Result<void> check_bytes(const StoredTensor& tensor, std::uint64_t n_bytes) const;
  // The same, for an alias only, and all that was read of aliases so far: the values of all others
  // are in the file.
  Result<void> check_alias_bytes(const StoredTensor& tensor, std::uint64_t n_bytes) const;
  // Of a .cfck file from its index, else computed from the bytes.
  Result<Digest> digest(const StoredTensor& tensor) const;

 private:
  struct OpenFile {
    std::string path;
    std::unique_ptr<ByteSource> source;
    std::optional<Reader> reader;                             // of a .cfck file
    std::uint64_t max_decoded_bytes = 0;                      // likewise
    std::unique_ptr<std::atomic<std::uint64_t>> alias_bytes;  // likewise: read so far
  };

  Result<void> add_file(const std::string& path, const Limits& limits);
  Result<void> add_cfck(OpenFile& file, const Limits& limits);
  Result<void> add_safetensors(OpenFile& file);
  Result<void> sort_names();

  std::vector<OpenFile> files_;
  std::vector<StoredTensor> tensors_;
  std::vector<StoredTensor> ties_;  // of safetensors files, until all files are open
  std::vector<std::size_t> by_name_;
  Metadata metadata_;
  ReadListener listener_;
};

// Elements of one piece of read_all: a multiple of kLeafElems, of whole chunks
// where that is not too much.
inline constexpr std::uint64_t kLeafElems = 4096;
std::uint64_t piece_elems(const StoredTensor& tensor);

// Calls `take` with the starts, stops and number of elements of boxes of at most `most_elems` that
// make up the shape, in row-major order.
using TakeBox =
    std::function<Result<void>(std::span<const std::uint64_t> starts,
                               std::span<const std::uint64_t> stops, std::uint64_t n_elems)>;
Result<void> for_each_box(const Shape& shape, std::uint64_t most_elems, const TakeBox& take);

// Whether the name matches one of these names or shell patterns; any does if there are none.
bool is_selected(const std::string& name, const std::vector<std::string>& patterns);
// Those tensors, in file order. Error: kNotFound for a pattern that matches none: it may be
// misspelt.
Result<std::vector<const StoredTensor*>> select_tensors(const TensorSet& set,
                                                        const std::vector<std::string>& patterns);

// What the work ends with when a signal arrived.
Result<void> check_interrupt();

// The error that names what is like `name`. Code: kNotFound.
Error no_such_tensor(const TensorSet& tensors, std::string_view name);

}  // namespace cfck::tools
