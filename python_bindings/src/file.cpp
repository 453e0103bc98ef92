#include "file.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/run_guarded.hpp"
#include "cfck/checkpoint.hpp"
#include "model/formats/archive_format.hpp"
#include "model/formats/foreign_formats.hpp"
#include "progress.hpp"

namespace cfck::python {
namespace {

// The tensor as a record that is stored as it is, or as a view of another one.
Record record_of(const ArchiveTensor& tensor) {
  Record record;
  record.name = tensor.name;
  record.hidden = tensor.hidden;
  record.dtype = tensor.dtype;
  record.shape = tensor.shape;
  record.n_elems = tensor.n_elems;
  record.decoded_bytes = tensor.n_bytes;
  record.stored_bytes = tensor.stored_bytes;
  record.n_chunks = tensor.n_bytes > 0 ? 1 : 0;
  if (tensor.sharing == Sharing::kMemory) {
    record.kind = RecordKind::kAlias;
    record.base = static_cast<std::uint32_t>(tensor.base);
    record.element_offset = tensor.element_offset;
    record.strides = tensor.strides;
  }
  return record;
}

// A file of unknown format is taken for a damaged .cfck file, unless another program wrote it.
Result<std::unique_ptr<TensorArchive>> open_source(std::unique_ptr<ByteSource> source,
                                                   const std::string& name,
                                                   const ArchiveOptions& options) {
  CFCK_TRY_ASSIGN(const std::string head, model::head_of(*source));
  const bool is_file = source->name() == name;  // else bytes in memory
  if (is_file) {
    if (auto foreign = model::foreign_by_name(head, name)) return std::move(*foreign);
  }
  const model::ArchiveFormat* const format = model::recognised(head);
  auto opened =
      TensorArchive::open_as(format == nullptr ? "cfck" : format->name, std::move(source), options);
  if (opened || model::recognised_or_resembled(head) != nullptr) return opened;
  const ErrorCode code = opened.error().code;
  if (code == ErrorCode::kCorrupt || code == ErrorCode::kTruncated) {
    auto foreign =
        is_file ? model::foreign_format(head, name) : model::foreign_in_python(head, name);
    if (foreign) return std::move(*foreign);
    const bool is_erased = head.find_first_not_of('\0') == head.npos;
    if (head.empty() || (is_erased && name.ends_with(".cfck"))) return opened;
    if (auto other = model::no_tensors(head, {})) return std::move(*other);
  }
  return opened;
}

}  // namespace

File::File(std::unique_ptr<ByteSource> source, const std::string& name, nb::object owner,
           const ArchiveOptions& options)
    : owner_(std::move(owner)), archive_(take(without_gil([&] {
        return run_guarded([&] { return open_source(std::move(source), name, options); });
      }))) {}

std::vector<Record> File::records() const {
  if (reader() != nullptr) return {reader()->records().begin(), reader()->records().end()};
  std::vector<Record> records;
  for (const ArchiveTensor& tensor : archive_->tensors()) {
    if (!tensor.named_by_metadata) records.push_back(record_of(tensor));
  }
  return records;
}

std::map<std::string, std::uint64_t> File::attachments() const {
  std::map<std::string, std::uint64_t> sizes;
  for (const Attachment& attachment : archive_->attachments()) {
    // Other formats have attachments of their own; only checkpoints are the user's.
    if (reader() == nullptr && attachment.name != kCheckpointAttachment) continue;
    sizes.emplace(attachment.name, attachment.decoded_bytes);
  }
  return sizes;
}

void File::check_sizes(const std::vector<std::tuple<std::size_t, std::uint64_t>>& sizes) const {
  std::uint64_t total_bytes = 0;
  for (const auto& [index, n_bytes] : sizes) {
    total_bytes += std::min(n_bytes, std::numeric_limits<std::uint64_t>::max() - total_bytes);
    take(archive_->check_decoded_bytes(tensor(index), total_bytes));
  }
}

void File::read_many(const std::vector<Request>& requests, nb::object progress) const {
  std::vector<ArchiveRead> reads;
  std::uint64_t total_bytes = 0;
  for (const auto& [index, address, n_bytes] : requests) {
    reads.push_back({&tensor(index), bytes_at(address, n_bytes)});
    total_bytes += n_bytes;
  }
  Watch watch(std::move(progress), total_bytes);
  watch.take(without_gil([&] { return archive_->read_many(reads, watch.listener()); }));
}

void File::read_slice(std::size_t index, const std::vector<std::uint64_t>& starts,
                      const std::vector<std::uint64_t>& stops, std::uintptr_t address,
                      std::uint64_t n_bytes) const {
  const ArchiveTensor& what = tensor(index);
  take(without_gil(
      [&] { return archive_->read_slice(what, starts, stops, bytes_at(address, n_bytes)); }));
}

const ArchiveTensor& File::tensor(std::size_t index) const {
  if (index >= archive_->tensors().size()) throw nb::index_error("no such record");
  return archive_->tensors()[index];
}

}  // namespace cfck::python
