// The tensors of an archive, as the commands that look at values read them: piece by piece, until a
// signal arrives.
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

#include "cfck/archive.hpp"
#include "tools/input/reading_options.hpp"

namespace cfck::tools {

// A tensor with a name, and the properties that the commands need.
struct StoredTensor : ArchiveTensor {
  std::optional<RecordError> error;  // of a lossy record
  std::uint64_t bound_rows = 1;      // see bound_rows()
  // For a view that repeats elements along some axes (strides of 0): the shape with 1 there, and
  // its number of elements. For all others shape and n_elems.
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
  // Errors: those of TensorArchive::open() and of ReadingOptions::decode().
  static Result<TensorSet> open(const std::string& path, const ReadingOptions& reading);

  // Tensors in file order; hidden records have no name and are not among them.
  std::span<const StoredTensor> tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;
  // Metadata of all shards; the first that has a key decides.
  const Metadata& metadata() const { return archive_->metadata(); }
  std::span<const ArchiveFile> files() const { return archive_->files(); }
  bool has_file(const std::string& path) const;
  // The name of the tensor that this one shares its bytes with; empty where there is none, or where
  // it has no name.
  std::string base_name(const StoredTensor& tensor) const;
  // Returns nullptr for a tensor that is not in a .cfck file.
  const Reader* reader_of(const StoredTensor& tensor) const { return file_of(tensor).reader; }
  const std::string& path_of(const StoredTensor& tensor) const { return file_of(tensor).path; }

  // Called by read() with the bytes that it read, to show progress.
  using ReadListener = std::function<void(std::uint64_t n_bytes)>;
  void listen(ReadListener listener) { listener_ = std::move(listener); }

  // Reads elements [first_elem, first_elem + n_elems). Errors have the path.
  Result<void> read(const StoredTensor& tensor, std::uint64_t first_elem, std::uint64_t n_elems,
                    MutableBytes out) const;
  // Passes on all bytes in order, in pieces of some MB. Fails with "cancelled" when a signal
  // arrives.
  Result<void> read_all(const StoredTensor& tensor, const TakeElements& take) const;
  // Passes on the bytes without repeated elements; in pieces of whole elements.
  Result<void> read_once(const StoredTensor& tensor, const TakeElements& take) const;
  // Reads the box [starts, stops) of a tensor.
  Result<void> read_box(const StoredTensor& tensor, std::span<const std::uint64_t> starts,
                        std::span<const std::uint64_t> stops, MutableBytes out) const;
  // An alias of a small record may have very many elements, so that reading them all would never
  // end. Error: kLimitExceeded where `n_bytes` are more than one call may return.
  Result<void> check_bytes(const StoredTensor& tensor, std::uint64_t n_bytes) const;
  // Checks, for an alias only, the sum of all bytes that were read of aliases so far: the values of
  // all other tensors are in the file. In other formats than .cfck any tensor that is not stored
  // raw may claim as many elements: the sum counts each of them once.
  Result<void> check_alias_bytes(const StoredTensor& tensor, std::uint64_t n_bytes) const;
  // Returns the digest from the index of a .cfck file, else computed from the bytes.
  Result<Digest> digest(const StoredTensor& tensor) const;

 private:
  Result<void> list();
  // check_alias_bytes() of formats other than .cfck.
  Result<void> check_claim(const StoredTensor& tensor, std::uint64_t n_bytes) const;
  const ArchiveFile& file_of(const StoredTensor& tensor) const {
    return archive_->files()[tensor.file];
  }

  std::unique_ptr<TensorArchive> archive_;
  std::vector<StoredTensor> tensors_;  // without hidden ones
  std::vector<std::size_t> places_;    // in tensors_, by ArchiveTensor::index
  // Bytes that were read of views so far, by file.
  std::unique_ptr<std::atomic<std::uint64_t>[]> view_bytes_;
  // Those of tensors of other formats, each counted once, and which were.
  std::unique_ptr<std::atomic<std::uint64_t>[]> claimed_bytes_;
  std::unique_ptr<std::atomic<bool>[]> is_claimed_;  // by ArchiveTensor::index
  ReadListener listener_;
};

// Number of elements of one piece of read_all: a multiple of kLeafElems, of whole chunks where that
// is not too much.
inline constexpr std::uint64_t kLeafElems = 4096;
std::uint64_t piece_elems(const StoredTensor& tensor);

// Calls `take` with the starts, stops and number of elements of boxes of at most `most_elems` that
// make up the shape, in row-major order.
using TakeBox =
    std::function<Result<void>(std::span<const std::uint64_t> starts,
                               std::span<const std::uint64_t> stops, std::uint64_t n_elems)>;
Result<void> for_each_box(const Shape& shape, std::uint64_t most_elems, const TakeBox& take);

// True if the name matches one of these names or shell patterns, or if there are none.
bool is_selected(const std::string& name, const std::vector<std::string>& patterns);
// Returns the selected tensors, in file order. Error: kNotFound for a pattern that matches none: it
// may be misspelt.
Result<std::vector<const StoredTensor*>> select_tensors(const TensorSet& set,
                                                        const std::vector<std::string>& patterns);

// Error: "cancelled" when a signal has arrived.
Result<void> check_interrupt();

// Returns the tensor of that name of the reference, of the same dtype and shape. Errors, in the
// record: kNotFound where there is none of that name; kInvalidArgument where the types differ.
Result<const StoredTensor*> find_original(const TensorSet& reference, const StoredTensor& tensor);

// Returns an error that suggests names like `name`. Code: kNotFound.
Error no_such_tensor(const TensorSet& tensors, std::string_view name);

}  // namespace cfck::tools
