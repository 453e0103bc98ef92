// HDF5 files as archives.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "cfck/safetensors.hpp"
#include "format/write/sharing/alias_plan.hpp"
#include "hdf5/archive/element_taker.hpp"
#include "hdf5/archive/include/cfck/hdf5.hpp"
#include "hdf5/archive/listing.hpp"
#include "hdf5/archive/listing_text.hpp"
#include "hdf5/archive/notes.hpp"
#include "hdf5/archive/reader_process.hpp"
#include "hdf5/chunks/filters.hpp"
#include "interop/stored/boxes.hpp"
#include "model/listed_archive.hpp"

namespace cfck::hdf5 {
namespace {

// The most time that libhdf5 gets: a hundred times what it needs.
constexpr std::uint64_t kListSeconds = 2;
constexpr std::uint64_t kReadSeconds = 60;                    // a chunk is decompressed whole
constexpr std::uint64_t kSlowBytes = std::uint64_t{1} << 20;  // in a second
// And the most memory, in which all objects have room.
constexpr std::uint64_t kListMemory = std::uint64_t{4} << 30;
constexpr std::uint64_t kReadMemory = 8 * kMaxChunkBytes;
constexpr std::uint64_t kSlabBytes = std::uint64_t{16} << 20;

Result<void> no_elements(MessageKind, ByteView) {
  return internal_error("the program that reads HDF5 files sent elements of a listing");
}

Error wrong_size() { return invalid_argument("the memory for the tensor has the wrong size"); }

class Hdf5Archive final : public model::ListedArchive {
 public:
  Hdf5Archive(std::unique_ptr<ByteSource> source, const ArchiveOptions& options)
      : source_(std::move(source)), options_(options.decode), only_tensors_(options.only_tensors) {}

  Result<void> list() {
    JobRequest request;
    request.limits = {kListSeconds + source_->size() / kSlowBytes, kListMemory};
    request.file_bytes = source_->size();
    CFCK_TRY_ASSIGN(const std::string text, run_job(request, *source_, &no_elements));
    Listing listing = listing_of(text);
    std::uint64_t max_bytes = options_.limits.max_decoded_bytes;
    if (max_bytes == 0) {
      max_bytes = std::max(std::uint64_t{16} << 30, source_->size() * 64);
    }
    files_.push_back({source_->name(), "hdf5", source_->size(), max_bytes, nullptr, source_.get()});
    for (ListedDataset& dataset : listing.datasets) add(std::move(dataset));
    notes_ = notes_of(listing, only_tensors_);
    if (!only_tensors_) keep_structure(std::move(listing));
    CFCK_TRY(finish_list());
    const auto [first, second] = same_names();
    if (first == nullptr) return {};
    return corrupt("two datasets have this name; the file is damaged").in_record(first->name);
  }

  std::span<const std::string> notes() const override { return notes_; }

  Result<std::vector<std::byte>> attachment(std::string_view name) const override {
    return run_guarded([&]() -> Result<std::vector<std::byte>> {
      if (name != kStructureAttachment || only_tensors_) return ListedArchive::attachment(name);
      if (!lost_.empty()) {
        return unsupported(
                   "the file has " + std::to_string(lost_.size()) +
                   (lost_.size() == 1 ? " object" : " objects") +
                   " that cannot be kept (references, sequences of varying length, long doubles or "
                   "types); take the tensors alone with --only-tensors (load_file(path, "
                   "only_tensors=True) in Python), or copy the file without them. The first is '" +
                   escaped(lost_.front()) + "'")
            .in_record(lost_.front());
      }
      const auto bytes = std::as_bytes(std::span(structure_));
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    });
  }

  Result<void> read_many(std::span<const ArchiveRead> reads,
                         const ReadProgress& progress) const override {
    return run_guarded([&]() -> Result<void> {
      std::vector<SafetensorsRead> direct;
      std::vector<const ArchiveRead*> others;
      std::uint64_t total_bytes = 0;
      for (const ArchiveRead& read : reads) {
        CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(read.tensor));
        if (read.out.size() != listed->n_bytes) return wrong_size().in_record(listed->name);
        total_bytes = total_bytes + listed->n_bytes < total_bytes ? ~std::uint64_t{0}
                                                                  : total_bytes + listed->n_bytes;
        CFCK_TRY(check_decoded_bytes(*listed, total_bytes));
        if (is_direct(*listed)) {
          direct.push_back({&entries_[listed->index], read.out});
        } else {
          others.push_back(&read);
        }
      }
      CFCK_TRY(read_safetensors(*source_, direct, progress, options_.threads));
      std::uint64_t done_bytes = 0;
      for (const SafetensorsRead& read : direct) done_bytes += read.out.size();
      for (const ArchiveRead* read : others) {
        CFCK_TRY(read_range(tensors_[read->tensor->index], 0, read->tensor->n_elems, read->out));
        done_bytes += read->out.size();
        if (progress && !progress(done_bytes, read->tensor->name)) return cancelled();
      }
      return {};
    });
  }

  Result<void> read_elements(const ArchiveTensor& tensor, std::uint64_t first_elem,
                             std::uint64_t n_elems, MutableBytes out) const override {
    return run_guarded([&]() -> Result<void> {
      CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
      CFCK_TRY(check_elements(*listed, first_elem, n_elems, out));
      if (!is_direct(*listed)) return read_range(*listed, first_elem, n_elems, out);
      const std::uint64_t elem_bytes = bits_per_element(listed->dtype) / 8;
      return source_->read_at(entries_[listed->index].offset_bytes + first_elem * elem_bytes, out);
    });
  }

  Result<void> read_slice(const ArchiveTensor& tensor, std::span<const std::uint64_t> starts,
                          std::span<const std::uint64_t> stops, MutableBytes out) const override {
    return run_guarded([&]() -> Result<void> {
      CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
      CFCK_TRY(check_decoded_bytes(*listed, out.size()));
      if (is_direct(*listed)) {
        return read_safetensors_slice(*source_, entries_[listed->index], starts, stops, out);
      }
      CFCK_TRY(check_box(*listed, starts, stops, out));
      if (out.empty()) return {};
      const Box box{{starts.begin(), starts.end()}, {stops.begin(), stops.end()}};
      return read_boxes(*listed, {box}, out);
    });
  }

 private:
  // Keeps what the file has beside its tensors.
  void keep_structure(Listing listing) {
    lost_ = std::move(listing.lost);
    metadata_ = std::move(listing.metadata);
    if (!listing.left_out.empty()) {
      std::string names;
      for (const auto& [object, name] : listing.left_out) {
        names.append(names.empty() ? "" : ", ").append(object).append("@").append(name);
      }
      metadata_.emplace(kLeftOutKey, std::move(names));  // unless the root has such an attribute
    }
    structure_ = listing.structure.dump();
    attachments_.push_back(
        {std::string(kStructureAttachment), structure_.size(), structure_.size()});
  }

  void add(ListedDataset dataset) {
    ArchiveTensor tensor;
    tensor.name = dataset.name;
    tensor.dtype = dataset.dtype;
    tensor.shape = dataset.shape;
    tensor.n_bytes = *n_bytes(dataset.dtype, dataset.shape);  // checked when listed
    tensor.stored_bytes = dataset.stored_bytes;
    tensor.offset_bytes = dataset.offset_bytes;
    tensor.chunk_elems = slab_elems(dataset);
    if (dataset.tied_to) {
      tensor.sharing = Sharing::kMemory;
      tensor.base = *dataset.tied_to;
      tensor.strides = format::contiguous_strides(tensor.shape);
    }
    entries_.push_back({dataset.name, dataset.dtype, dataset.shape,
                        dataset.offset_bytes.value_or(0), tensor.n_bytes});
    chunk_bytes_.push_back(chunk_bytes_of(dataset));
    fills_.push_back(dataset.fill.value_or(std::vector<std::uint8_t>()));
    tensors_.push_back(std::move(tensor));
  }

  // Elements that are best read together: rows of whole chunks, while they are not too many.
  static std::uint64_t slab_elems(const ListedDataset& dataset) {
    if (dataset.chunk_shape.empty()) return 0;
    std::uint64_t row_elems = 1;
    for (std::size_t axis = 1; axis < dataset.shape.size(); ++axis) {
      if (__builtin_mul_overflow(row_elems, dataset.shape[axis], &row_elems)) return 0;
    }
    std::uint64_t slab = 0;
    if (__builtin_mul_overflow(row_elems, dataset.chunk_shape[0], &slab)) return 0;
    return slab <= kSlabBytes ? slab / 8 * 8 : 0;
  }

  static std::uint64_t chunk_bytes_of(const ListedDataset& dataset) {
    if (dataset.chunk_shape.empty()) return 0;
    std::uint64_t size = bits_per_element(dataset.dtype) / 8;
    for (const std::uint64_t length : dataset.chunk_shape) {
      if (__builtin_mul_overflow(size, length, &size)) return ~std::uint64_t{0};
    }
    return size;
  }

  bool is_direct(const ArchiveTensor& tensor) const {
    return tensor.offset_bytes.has_value() || tensor.n_bytes == 0;
  }

  static Result<void> check_box(const ArchiveTensor& tensor, std::span<const std::uint64_t> starts,
                                std::span<const std::uint64_t> stops, MutableBytes out) {
    const auto refuse = [&](const char* message) {
      return invalid_argument(message).in_record(tensor.name);
    };
    if (starts.size() != tensor.shape.size() || stops.size() != tensor.shape.size()) {
      return refuse("a slice has one start and one stop for each dimension");
    }
    Shape shape;
    for (std::size_t axis = 0; axis < shape.size() || axis < tensor.shape.size(); ++axis) {
      if (starts[axis] > stops[axis] || stops[axis] > tensor.shape[axis]) {
        return refuse("the slice reaches beyond the tensor");
      }
      shape.push_back(stops[axis] - starts[axis]);
    }
    CFCK_TRY_ASSIGN(const std::uint64_t size, n_bytes(tensor.dtype, shape));
    return out.size() == size ? Result<void>()
                              : refuse("the memory for the slice has the wrong size");
  }

  Result<void> read_range(const ArchiveTensor& tensor, std::uint64_t first_elem,
                          std::uint64_t n_elems, MutableBytes out) const {
    if (out.empty()) return {};
    return read_boxes(tensor, interop::boxes_of(tensor.shape, first_elem, n_elems), out);
  }

  // Reads boxes, one behind the other, through libhdf5.
  Result<void> read_boxes(const ArchiveTensor& tensor, std::vector<Box> boxes,
                          MutableBytes out) const {
    const std::size_t elem_bytes = bits_per_element(tensor.dtype) / 8;
    if (!fills_[tensor.index].empty()) {
      fill_with(std::as_bytes(std::span(fills_[tensor.index])), out);
      return {};
    }
    if (chunk_bytes_[tensor.index] > kMaxChunkBytes) {
      return limit_exceeded(
                 "the dataset is stored in chunks of more than 256 MiB; write it again "
                 "with smaller ones, for example with h5repack")
          .in_record(tensor.name);
    }
    JobRequest request;
    request.limits = {kReadSeconds + out.size() / kSlowBytes, kReadMemory};
    request.file_bytes = source_->size();
    request.name = tensor.name;
    request.dtype = tensor.dtype;
    request.boxes = std::move(boxes);
    // Nothing that the process leaves out may show what was there before.
    std::memset(out.data(), 0, out.size());
    const ElementTaker taker(request.boxes, elem_bytes, out);
    const auto done = run_job(request, *source_, [&](MessageKind kind, ByteView payload) {
      return taker.take(kind, payload);
    });
    if (!done) return Error(done.error()).in_record(tensor.name);
    return {};
  }

  std::unique_ptr<ByteSource> source_;
  DecodeOptions options_;
  bool only_tensors_;
  std::vector<SafetensorsEntry> entries_;   // of tensors_, to read elements in place
  std::vector<std::uint64_t> chunk_bytes_;  // of tensors_; 0: not in chunks
  // For each of tensors_: one element if it was never written; else empty.
  std::vector<std::vector<std::uint8_t>> fills_;
  std::vector<std::string> notes_;
  std::vector<std::string> lost_;
  std::string structure_;
};

}  // namespace

Result<std::unique_ptr<TensorArchive>> open(std::unique_ptr<ByteSource> source,
                                            const ArchiveOptions& options) {
  return run_guarded([&]() -> Result<std::unique_ptr<TensorArchive>> {
    if (source == nullptr) return invalid_argument("the source of an archive is nullptr");
    auto archive = std::make_unique<Hdf5Archive>(std::move(source), options);
    CFCK_TRY(archive->list());
    return std::unique_ptr<TensorArchive>(std::move(archive));
  });
}

Result<std::unique_ptr<TensorArchive>> open(const std::string& path,
                                            const ArchiveOptions& options) {
  return run_guarded([&]() -> Result<std::unique_ptr<TensorArchive>> {
    CFCK_TRY_ASSIGN(auto source, open_file(path, options.mode));
    return open(std::move(source), options);
  });
}

}  // namespace cfck::hdf5
