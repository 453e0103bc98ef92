#include "hdf5/chunks/chunked_dataset.hpp"

#include <algorithm>
#include <utility>

namespace cfck::hdf5 {
namespace {

constexpr const char* kUnreadable = "the chunks of a dataset cannot be read";

Error no_rank() {
  return corrupt("the chunks of a dataset have another number of dimensions than itself");
}

// Strings of any length are references in the file: a length, an address and an index.
Result<std::size_t> stored_elem_bytes(hid_t dataset, hid_t type) {
  if (H5Tis_variable_str(type) <= 0) return H5Tget_size(type);
  CFCK_TRY_ASSIGN(const Handle file, checked(H5Iget_file_id(dataset), kUnreadable));
  CFCK_TRY_ASSIGN(const Handle properties, checked(H5Fget_create_plist(file.get()), kUnreadable));
  std::size_t address_bytes = 0;
  std::size_t length_bytes = 0;
  CFCK_TRY(
      checked_status(H5Pget_sizes(properties.get(), &address_bytes, &length_bytes), kUnreadable));
  return 4 + address_bytes + 4;
}

}  // namespace

Result<ChunkedDataset> ChunkedDataset::open(hid_t dataset, std::uint64_t file_bytes) {
  ChunkedDataset made;
  made.dataset_ = dataset;
  made.file_bytes_ = file_bytes;
  CFCK_TRY_ASSIGN(const Handle properties, checked(H5Dget_create_plist(dataset), kUnreadable));
  CFCK_TRY_ASSIGN(const Handle space, checked(H5Dget_space(dataset), kUnreadable));
  CFCK_TRY_ASSIGN(const Handle type, checked(H5Dget_type(dataset), kUnreadable));
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank <= 0) return no_rank();
  std::vector<hsize_t> lengths(static_cast<std::size_t>(rank));
  if (H5Sget_simple_extent_dims(space.get(), lengths.data(), nullptr) != rank) return no_rank();
  made.shape_.assign(lengths.begin(), lengths.end());
  if (H5Pget_chunk(properties.get(), rank, lengths.data()) != rank) return no_rank();
  made.chunk_.assign(lengths.begin(), lengths.end());
  CFCK_TRY_ASSIGN(made.elem_bytes_, stored_elem_bytes(dataset, type.get()));
  made.chunk_bytes_ = made.elem_bytes_;
  for (const std::uint64_t length : made.chunk_) {
    if (length == 0) return corrupt("the chunks of a dataset have no elements");
    if (__builtin_mul_overflow(made.chunk_bytes_, length, &made.chunk_bytes_) ||
        made.chunk_bytes_ > kMaxChunkBytes) {
      return chunk_too_large();
    }
  }
  unsigned options = 0;
  CFCK_TRY(checked_status(H5Pget_chunk_opts(properties.get(), &options), kUnreadable));
  made.has_plain_edges_ = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
  CFCK_TRY_ASSIGN(made.pipeline_, Pipeline::of(properties.get()));
  if (H5Dget_storage_size(dataset) == 0) return made;
  hsize_t n_stored = 0;
  CFCK_TRY(checked_status(H5Dget_num_chunks(dataset, space.get(), &n_stored), kUnreadable));
  made.n_stored_ = n_stored;
  return made;
}

// Looking up one chunk takes about a microsecond. To find the n-th chunk, libhdf5 before 1.14 goes
// past all before it, which takes some nanoseconds each.
bool ChunkedDataset::is_list_shorter(std::uint64_t n_in_box) const {
  if (list_) return list_->size() < n_in_box;
#if H5_VERSION_GE(1, 14, 0)
  return n_stored_ < n_in_box;
#else
  return n_stored_ < n_in_box && n_stored_ * n_stored_ / 64 < n_in_box;
#endif
}

#if H5_VERSION_GE(1, 14, 0)
namespace {

struct Listed {
  std::vector<std::vector<hsize_t>> places;
  std::size_t rank = 0;
};

int add_place(const hsize_t* offset, unsigned, haddr_t, hsize_t, void* data) {
  auto& listed = *static_cast<Listed*>(data);
  try {
    listed.places.emplace_back(offset, offset + listed.rank);
  } catch (...) {
    return -1;  // no exception may pass through C
  }
  return 0;
}

}  // namespace

Result<void> ChunkedDataset::make_list() {
  Listed listed;
  listed.rank = chunk_.size();
  CFCK_TRY(checked_status(H5Dchunk_iter(dataset_, H5P_DEFAULT, &add_place, &listed), kUnreadable));
  list_ = std::move(listed.places);
  return {};
}
#else
Result<void> ChunkedDataset::make_list() {
  CFCK_TRY_ASSIGN(const Handle space, checked(H5Dget_space(dataset_), kUnreadable));
  std::vector<Place> places;
  for (hsize_t i = 0; i < n_stored_; ++i) {
    Place place(chunk_.size());
    CFCK_TRY(checked_status(
        H5Dget_chunk_info(dataset_, space.get(), i, place.data(), nullptr, nullptr, nullptr),
        kUnreadable));
    places.push_back(std::move(place));
  }
  list_ = std::move(places);
  return {};
}
#endif

Result<void> ChunkedDataset::read(const Box& box, const TakeChunk& take) {
  if (n_stored_ == 0) return {};
  std::uint64_t n_in_box = 1;
  for (std::size_t axis = 0; axis < chunk_.size(); ++axis) {
    if (box.starts[axis] >= box.stops[axis]) return {};
    const std::uint64_t n =
        (box.stops[axis] - 1) / chunk_[axis] - box.starts[axis] / chunk_[axis] + 1;
    if (__builtin_mul_overflow(n_in_box, n, &n_in_box)) n_in_box = ~std::uint64_t{0};
  }
  if (!is_list_shorter(n_in_box)) return walk(box, take);
  if (!list_) CFCK_TRY(make_list());
  for (const Place& place : *list_) {
    for (std::size_t axis = 0; axis < place.size(); ++axis) {
      if (place[axis] % chunk_[axis] != 0 || place[axis] > shape_[axis]) {
        return corrupt("a chunk of the dataset is at a place that it does not have");
      }
    }
    if (shared_part(box_of(place), box)) CFCK_TRY(read_chunk(place, box, take));
  }
  return {};
}

Result<void> ChunkedDataset::walk(const Box& box, const TakeChunk& take) {
  const std::size_t rank = chunk_.size();
  Place first(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    first[axis] = box.starts[axis] / chunk_[axis] * chunk_[axis];
  }
  Place place = first;
  while (true) {
    CFCK_TRY(read_chunk(place, box, take));
    std::size_t axis = rank;
    while (axis > 0 && box.stops[axis - 1] - place[axis - 1] <= chunk_[axis - 1]) {
      --axis;
      place[axis] = first[axis];
    }
    if (axis == 0) return {};
    place[axis - 1] += chunk_[axis - 1];
  }
}

Box ChunkedDataset::box_of(const Place& place) const {
  Box box{{place.begin(), place.end()}, {place.begin(), place.end()}};
  for (std::size_t axis = 0; axis < place.size(); ++axis) box.stops[axis] += chunk_[axis];
  return box;
}

bool ChunkedDataset::is_partial(const Place& place) const {
  for (std::size_t axis = 0; axis < place.size(); ++axis) {
    if (shape_[axis] - place[axis] < chunk_[axis]) return true;
  }
  return false;
}

Result<void> ChunkedDataset::read_chunk(const Place& place, const Box& box, const TakeChunk& take) {
  constexpr std::uint64_t kMaxKeptBytes = std::uint64_t{64} << 20;
  const Box chunk = box_of(place);
  if (const auto kept = kept_.chunks.find(place); kept != kept_.chunks.end()) {
    return take(chunk, kept->second.bytes());
  }
  hsize_t stored_bytes = 0;
  CFCK_TRY(checked_status(H5Dget_chunk_storage_size(dataset_, place.data(), &stored_bytes),
                          kUnreadable));
  if (stored_bytes == 0) return {};
  CFCK_TRY_ASSIGN(Buffer elements, decoded(place, stored_bytes));
  CFCK_TRY(take(chunk, elements.bytes()));
  if (is_inside(chunk, box)) return {};
  if (kept_.n_bytes > kMaxKeptBytes) kept_ = {};
  kept_.n_bytes += chunk_bytes_;
  kept_.chunks.emplace(place, std::move(elements));
  return {};
}

Result<Buffer> ChunkedDataset::decoded(const Place& place, std::uint64_t stored_bytes) const {
  if (stored_bytes > file_bytes_) {
    return truncated(
        "a chunk of the dataset reaches beyond the end of the file; download it again");
  }
  CFCK_TRY_ASSIGN(Buffer stored, Buffer::zeroed(stored_bytes));
  std::uint32_t mask = 0;
  CFCK_TRY(checked_status(H5Dread_chunk(dataset_, H5P_DEFAULT, place.data(), &mask, stored.data()),
                          kUnreadable));
  if (has_plain_edges_ && is_partial(place)) {
    return Pipeline().decode(std::move(stored), 0, chunk_bytes_);
  }
  return pipeline_.decode(std::move(stored), mask, chunk_bytes_);
}

Result<std::vector<std::byte>> fill_value(hid_t creation_properties, hid_t type) {
  std::vector<std::byte> element(H5Tget_size(type));
  H5D_fill_value_t status = H5D_FILL_VALUE_ERROR;
  H5D_fill_time_t time = H5D_FILL_TIME_ERROR;
  CFCK_TRY(checked_status(H5Pfill_value_defined(creation_properties, &status),
                          "a fill value cannot be read"));
  CFCK_TRY(
      checked_status(H5Pget_fill_time(creation_properties, &time), "a fill value cannot be read"));
  if (status == H5D_FILL_VALUE_UNDEFINED || time == H5D_FILL_TIME_NEVER) return element;
  CFCK_TRY(checked_status(H5Pget_fill_value(creation_properties, type, element.data()),
                          "a fill value cannot be read"));
  return element;
}

}  // namespace cfck::hdf5
