// The elements of a dataset that is stored in chunks, of which any number may be missing.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "hdf5/chunks/pipeline.hpp"
#include "hdf5/chunks/regions.hpp"
#include "hdf5/library/library.hpp"

namespace cfck::hdf5 {

// Takes the elements, as the file has them, of one chunk and the box that they fill, which may
// reach beyond the dataset.
using TakeChunk = std::function<Result<void>(const Box& chunk, ByteView elements)>;

class ChunkedDataset {
 public:
  // `dataset` must stay open. Needs a Library, as all of it. Errors: kLimitExceeded for chunks of
  // more than kMaxChunkBytes, kCorrupt, those of libhdf5.
  static Result<ChunkedDataset> open(hid_t dataset, std::uint64_t file_bytes);

  const Shape& shape() const { return shape_; }

  // Calls `take` for every chunk that is stored and has elements in `box`, once, in no promised
  // order. Each is checked before: its bytes in the file, its filters, and how many bytes they
  // give. Costs as much as the chunks in the box, or as all that are stored, whatever is less.
  // Errors: those of Pipeline::decode(), kTruncated, those of `take` and of libhdf5.
  Result<void> read(const Box& box, const TakeChunk& take);

 private:
  using Place = std::vector<hsize_t>;  // of the first element of a chunk

  // Chunks of which only a part was wanted, since other boxes may want the rest.
  struct Kept {
    std::map<Place, Buffer> chunks;
    std::uint64_t n_bytes = 0;
  };

  bool is_list_shorter(std::uint64_t n_in_box) const;
  Result<void> make_list();
  Result<void> walk(const Box& box, const TakeChunk& take);
  Result<void> read_chunk(const Place& place, const Box& box, const TakeChunk& take);
  Result<Buffer> decoded(const Place& place, std::uint64_t stored_bytes) const;
  bool is_partial(const Place& place) const;
  Box box_of(const Place& place) const;

  hid_t dataset_ = H5I_INVALID_HID;
  std::uint64_t file_bytes_ = 0;
  Shape shape_;
  Shape chunk_;
  std::size_t elem_bytes_ = 0;
  std::uint64_t chunk_bytes_ = 0;
  std::uint64_t n_stored_ = 0;
  bool has_plain_edges_ = false;  // chunks at the edge are not filtered
  Pipeline pipeline_;
  std::optional<std::vector<Place>> list_;  // of all chunks that are stored
  Kept kept_;
};

// Returns one element of a dataset that was never written, in the form of `type`: its fill value,
// or zeros. Errors: those of libhdf5.
Result<std::vector<std::byte>> fill_value(hid_t creation_properties, hid_t type);

}  // namespace cfck::hdf5
