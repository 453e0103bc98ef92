#include "hdf5/reader/dataset_reader.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "hdf5/archive/element_type.hpp"
#include "hdf5/chunks/chunked_dataset.hpp"

namespace cfck::hdf5 {
namespace {

constexpr const char* kUnreadable = "the dataset cannot be read";
constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;

Error another_file() { return corrupt("the file has changed since it was opened; open it again"); }

// Gives elements of the file's type the form that a tensor has.
class Conversion {
 public:
  static Result<Conversion> of(hid_t dataset, DType dtype) {
    Conversion made;
    CFCK_TRY_ASSIGN(made.file_type_, checked(H5Dget_type(dataset), kUnreadable));
    CFCK_TRY_ASSIGN(made.memory_type_, memory_type(made.file_type_.get(), dtype));
    made.file_bytes_ = H5Tget_size(made.file_type_.get());
    made.memory_bytes_ = H5Tget_size(made.memory_type_.get());
    if (made.memory_bytes_ * 8 != bits_per_element(dtype)) {
      return internal_error("an element of libhdf5 has another size than one of the tensor");
    }
    made.is_none_ = is_stored_like(made.file_type_.get(), dtype);
    return made;
  }

  bool is_none() const { return is_none_; }
  std::size_t file_bytes() const { return file_bytes_; }
  hid_t file_type() const { return file_type_.get(); }
  hid_t memory_type_id() const { return memory_type_.get(); }

  // Converts elements in place; returns them.
  Result<ByteView> converted(std::vector<std::byte>& elements) const {
    const std::size_t n_elems = elements.size() / file_bytes_;
    if (is_none_ || n_elems == 0) return ByteView(elements);
    elements.resize(n_elems * std::max(file_bytes_, memory_bytes_));
    std::vector<std::byte> background(n_elems * memory_bytes_);
    CFCK_TRY(checked_status(H5Tconvert(file_type_.get(), memory_type_.get(), n_elems,
                                       elements.data(), background.data(), H5P_DEFAULT),
                            kUnreadable));
    return ByteView(elements).first(n_elems * memory_bytes_);
  }

 private:
  Handle file_type_;
  Handle memory_type_;
  std::size_t file_bytes_ = 0;
  std::size_t memory_bytes_ = 0;
  bool is_none_ = false;
};

// Reads from one dataset, in one of the forms that HDF5 has for storage.
class DatasetReader {
 public:
  DatasetReader(hid_t dataset, Shape shape, const Conversion& conversion, ElementSink& sink)
      : dataset_(dataset),
        shape_(std::move(shape)),
        whole_(whole_box(shape_)),
        conversion_(conversion),
        sink_(sink) {}

  Result<void> read_chunked(const ByteSource& source, const JobRequest& request) {
    CFCK_TRY(send_fill());
    CFCK_TRY_ASSIGN(ChunkedDataset chunks, ChunkedDataset::open(dataset_, source.size()));
    for (std::size_t i = 0; i < request.boxes.size(); ++i) {
      const Box& box = request.boxes[i];
      CFCK_TRY(chunks.read(box, [&](const Box& chunk, ByteView elements) -> Result<void> {
        const auto part = shared_part(chunk, box);
        if (!part) return {};
        return send_part(i, *part, chunk, elements);
      }));
    }
    return {};
  }

  Result<void> read_contiguous(const ByteSource& source, const JobRequest& request) {
    CFCK_TRY(send_fill());
    const haddr_t offset = H5Dget_offset(dataset_);
    if (offset == HADDR_UNDEF || H5Dget_storage_size(dataset_) == 0) return {};
    for (std::size_t i = 0; i < request.boxes.size(); ++i) {
      CFCK_TRY(read_split(source, offset, i, request.boxes[i]));
    }
    return {};
  }

  // The elements of a compact dataset are in its header: at most 64 KiB.
  Result<void> read_compact(const JobRequest& request) {
    const std::uint64_t n_elems = n_elems_of(whole_);
    if (H5Dget_storage_size(dataset_) / conversion_.file_bytes() < n_elems) {
      return corrupt("the dataset has fewer elements in the file than its shape says");
    }
    std::vector<std::byte> elements(n_elems * conversion_.file_bytes());
    CFCK_TRY(checked_status(
        H5Dread(dataset_, conversion_.file_type(), H5S_ALL, H5S_ALL, H5P_DEFAULT, elements.data()),
        kUnreadable));
    for (std::size_t i = 0; i < request.boxes.size(); ++i) {
      if (n_elems_of(request.boxes[i]) == 0) continue;
      CFCK_TRY(send_part(i, request.boxes[i], whole_, elements));
    }
    return {};
  }

 private:
  Result<void> send_fill() {
    CFCK_TRY_ASSIGN(const Handle properties, checked(H5Dget_create_plist(dataset_), kUnreadable));
    CFCK_TRY_ASSIGN(const auto element, fill_value(properties.get(), conversion_.memory_type_id()));
    return sink_.fill(element);
  }

  // `elements` are those of the box `from`.
  Result<void> send_part(std::size_t box, const Box& part, const Box& from, ByteView elements) {
    if (conversion_.is_none() && part.starts == from.starts && part.stops == from.stops) {
      return sink_.piece(box, part, elements);
    }
    std::vector<std::byte> wanted(n_elems_of(part) * conversion_.file_bytes());
    copy_part(part, from, elements, part, wanted, conversion_.file_bytes());
    return convert_and_send(box, part, wanted);
  }

  Result<void> convert_and_send(std::size_t box, const Box& part,
                                std::vector<std::byte>& elements) {
    CFCK_TRY_ASSIGN(const ByteView converted, conversion_.converted(elements));
    return sink_.piece(box, part, converted);
  }

  // Reads a part in pieces of some MiB.
  Result<void> read_split(const ByteSource& source, haddr_t offset, std::size_t box,
                          const Box& part) {
    const std::uint64_t n_elems = n_elems_of(part);
    if (n_elems == 0) return {};
    if (n_elems > kPieceBytes / conversion_.file_bytes()) {
      std::size_t axis = 0;
      while (axis < part.starts.size() && part.stops[axis] - part.starts[axis] < 2) ++axis;
      if (axis < part.starts.size()) {
        Box first = part;
        Box second = part;
        first.stops[axis] = second.starts[axis] =
            part.starts[axis] + (part.stops[axis] - part.starts[axis]) / 2;
        CFCK_TRY(read_split(source, offset, box, first));
        return read_split(source, offset, box, second);
      }
    }
    std::vector<std::byte> elements(n_elems * conversion_.file_bytes());
    CFCK_TRY(for_each_run(part, whole_, part, conversion_.file_bytes(),
                          [&](std::uint64_t from, std::uint64_t to, std::uint64_t n_bytes) {
                            return source.read_at(offset + from,
                                                  std::span(elements).subspan(to, n_bytes));
                          }));
    return convert_and_send(box, part, elements);
  }

  hid_t dataset_;
  Shape shape_;
  Box whole_;
  const Conversion& conversion_;
  ElementSink& sink_;
};

Result<Shape> shape_in_file(hid_t dataset) {
  CFCK_TRY_ASSIGN(const Handle space, checked(H5Dget_space(dataset), kUnreadable));
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 0) return library_error(kUnreadable);
  std::vector<hsize_t> lengths(static_cast<std::size_t>(rank));
  if (rank > 0 && H5Sget_simple_extent_dims(space.get(), lengths.data(), nullptr) < 0) {
    return library_error(kUnreadable);
  }
  return Shape(lengths.begin(), lengths.end());
}

}  // namespace

Result<void> read_elements(hid_t file, const ByteSource& source, const JobRequest& request,
                           ElementSink& sink) {
  CFCK_TRY_ASSIGN(const Handle dataset,
                  checked(H5Dopen2(file, request.name.c_str(), H5P_DEFAULT), kUnreadable));
  CFCK_TRY_ASSIGN(const Conversion conversion, Conversion::of(dataset.get(), request.dtype));
  CFCK_TRY_ASSIGN(const Shape shape, shape_in_file(dataset.get()));
  const Box whole = whole_box(shape);
  for (const Box& box : request.boxes) {
    if (box.starts.size() != shape.size() || box.stops.size() != shape.size() ||
        !is_inside(box, whole)) {
      return another_file();
    }
  }
  CFCK_TRY_ASSIGN(const Handle properties,
                  checked(H5Dget_create_plist(dataset.get()), kUnreadable));
  DatasetReader reader(dataset.get(), shape, conversion, sink);
  switch (H5Pget_layout(properties.get())) {
    case H5D_CHUNKED:
      return reader.read_chunked(source, request);
    case H5D_CONTIGUOUS:
      if (H5Pget_external_count(properties.get()) != 0) return another_file();
      return reader.read_contiguous(source, request);
    case H5D_COMPACT:
      return reader.read_compact(request);
    default:
      return another_file();
  }
}

}  // namespace cfck::hdf5
