#include "archive.hpp"

#include <algorithm>
#include <limits>

#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "cfck/checkpoint.hpp"
#include "model/error_path.hpp"
#include "model/formats/archive_format.hpp"
#include "model/formats/foreign_formats.hpp"
#include "model/listed_archive.hpp"
#include "progress.hpp"

namespace cfck::python {
namespace {

// The tensor as a record that is stored as it is, or as a view of another one.
Record record_of(const ArchiveTensor& tensor) {
  Record record;
  record.dtype = tensor.dtype;
  record.shape = tensor.shape;
  record.n_elems = tensor.n_elems;
  record.decoded_bytes = tensor.n_bytes;
  record.stored_bytes = tensor.stored_bytes;
  record.n_chunks = tensor.n_bytes > 0 ? 1 : 0;
  if (tensor.sharing == Sharing::kMemory) {
    record.kind = RecordKind::kAlias;
    record.element_offset = tensor.element_offset;
    record.strides = tensor.strides;
  }
  return record;
}

std::uint64_t bytes_of(std::span<const ArchiveRead> reads) {
  std::uint64_t n_bytes = 0;
  for (const ArchiveRead& read : reads) n_bytes += read.out.size();
  return n_bytes;
}

// Bytes of unknown format are taken for a damaged .cfck file, unless another program wrote them.
Result<std::unique_ptr<TensorArchive>> open_source(std::unique_ptr<ByteSource> source,
                                                   const ArchiveOptions& options) {
  CFCK_TRY_ASSIGN(const std::string head, model::head_of(*source));
  const model::ArchiveFormat* const format = model::recognised(head);
  auto opened =
      TensorArchive::open_as(format == nullptr ? "cfck" : format->name, std::move(source), options);
  if (opened || model::recognised_or_resembled(head) != nullptr) return opened;
  const ErrorCode code = opened.error().code;
  if (head.empty() || (code != ErrorCode::kCorrupt && code != ErrorCode::kTruncated)) return opened;
  if (auto foreign = model::foreign_in_python(head, "the data")) return std::move(*foreign);
  if (auto other = model::no_tensors(head, {})) return std::move(*other);
  return opened;
}

}  // namespace

Archive::Archive(const std::string& path, const ArchiveOptions& options,
                 std::optional<std::uint64_t> max_index_bytes)
    : owner_(nb::none()), max_decoded_bytes_(options.decode.limits.max_decoded_bytes) {
  take(without_gil([&] {
    return run_guarded([&]() -> Result<void> {
      std::map<std::string, detail::FileStamp> stamps;
      const auto open = [&](const std::string& file) {
        if (const auto stamp = detail::stamp_of(file)) stamps.insert_or_assign(file, *stamp);
        return model::open_archive_file(file, options);
      };
      CFCK_TRY_ASSIGN(model_, model::open_model(path, open,
                                                {.joins_unnamed = false,
                                                 .finds_unread = false,
                                                 .in_index_order = true,
                                                 .max_index_bytes = max_index_bytes}));
      opened_.resize(tensors().files().size());
      for (std::size_t i = 0; i < model_.files.paths.size(); ++i) {
        OpenedFile& file = opened_[i];
        const ByteSource* const source = tensors().files()[i].source;
        if (source != nullptr) file.stamp = detail::stamp_of(source->descriptor());
        // What was written while the file was opened counts as well.
        const auto before = stamps.find(model_.files.paths[i]);
        if (file.stamp && before != stamps.end() && before->second.is_same_file(*file.stamp)) {
          file.stamp = before->second;
        }
        file.is_proven = options.decode.verify_chunks && tensors().files()[i].reader != nullptr;
        if (file.stamp && !file.is_proven) detail::wait_for_clock(*file.stamp);
      }
      return {};
    });
  }));
}

Archive::Archive(std::unique_ptr<ByteSource> source, nb::object owner,
                 const ArchiveOptions& options)
    : owner_(std::move(owner)),
      opened_(1),
      max_decoded_bytes_(options.decode.limits.max_decoded_bytes) {
  model_.archive = take(without_gil(
      [&] { return run_guarded([&] { return open_source(std::move(source), options); }); }));
  model_.parts.push_back(model_.archive.get());
}

const ArchiveTensor& Archive::tensor(std::size_t index) const {
  if (index >= tensors().tensors().size()) throw nb::index_error("no such record");
  return tensors().tensors()[index];
}

ListedRecord Archive::record(const ArchiveTensor& tensor) const {
  ListedRecord record;
  static_cast<Record&>(record) = tensor.record != nullptr ? *tensor.record : record_of(tensor);
  record.name = tensor.name;
  record.hidden = !model_.lists(tensor);
  record.base = static_cast<std::uint32_t>(tensor.base);
  record.file = tensor.file;
  record.format = tensors().files()[tensor.file].format;
  return record;
}

std::optional<ListedRecord> Archive::base_of(std::size_t index) const {
  const ArchiveTensor& tensor = this->tensor(index);
  ListedRecord base;
  base.file = tensor.file;
  base.format = tensors().files()[tensor.file].format;
  // The base of a duplicate need not be a tensor of the model.
  if (tensor.record != nullptr) {
    const RecordKind kind = tensor.record->kind;
    if (kind != RecordKind::kAlias && kind != RecordKind::kDuplicate) return std::nullopt;
    const Reader& reader = *tensors().files()[tensor.file].reader;
    static_cast<Record&>(base) = reader.records()[tensor.record->base];
    base.hidden = tensor.sharing == Sharing::kNone || tensors().tensors()[tensor.base].hidden;
    return base;
  }
  if (tensor.sharing == Sharing::kNone) return std::nullopt;
  const ArchiveTensor& shared = tensors().tensors()[tensor.base];
  static_cast<Record&>(base) = record_of(shared);
  base.name = shared.name;
  base.hidden = shared.hidden;
  return base;
}

std::vector<std::pair<nb::bytes, std::string>> Archive::notes() const {
  std::vector<std::pair<nb::bytes, std::string>> notes;
  for (const TensorArchive* part : model_.parts) {
    const std::string& path = part->files().front().path;
    for (const std::string& note : part->notes()) {
      notes.emplace_back(nb::bytes(path.data(), path.size()), note);
    }
  }
  return notes;
}

std::vector<std::map<std::string, std::uint64_t>> Archive::attachments() const {
  std::vector<std::map<std::string, std::uint64_t>> sizes;
  for (const TensorArchive* part : model_.parts) {
    auto& of_file = sizes.emplace_back();
    const bool is_cfck = part->files().front().reader != nullptr;
    for (const Attachment& attachment : part->attachments()) {
      // Other formats have attachments of their own; only checkpoints are the user's.
      if (!is_cfck && attachment.name != kCheckpointAttachment) continue;
      of_file.emplace(attachment.name, attachment.decoded_bytes);
    }
  }
  return sizes;
}

nb::bytes Archive::attachment(std::size_t file, const std::string& name) const {
  if (file >= model_.parts.size()) throw nb::index_error("no such file");
  const auto bytes = take(without_gil([&] { return model_.parts[file]->attachment(name); }));
  return nb::bytes(bytes.data(), bytes.size());
}

void Archive::check_sizes(const std::vector<Size>& sizes) const {
  std::vector<std::uint64_t> of_files(tensors().files().size());
  std::uint64_t of_all = 0;
  const auto add = [](std::uint64_t& total, std::uint64_t n_bytes) {
    total += std::min(n_bytes, std::numeric_limits<std::uint64_t>::max() - total);
  };
  for (const auto& [index, n_bytes] : sizes) {
    const ArchiveTensor& claimed = tensor(index);
    add(of_files[claimed.file], n_bytes);
    add(of_all, n_bytes);
    take(checked(tensors().check_decoded_bytes(claimed, of_files[claimed.file]), claimed));
    take(check_total(of_all, claimed));
  }
}

std::vector<ArchiveRead> Archive::reads_of(const std::vector<Request>& requests) const {
  std::vector<ArchiveRead> reads;
  for (const auto& [index, address, n_bytes] : requests) {
    reads.push_back({&tensor(index), bytes_at(address, n_bytes)});
  }
  return reads;
}

void Archive::read_many(const std::vector<Request>& requests, nb::object progress) const {
  const std::vector<ArchiveRead> reads = reads_of(requests);
  Watch watch(std::move(progress), bytes_of(reads));
  watch.take(without_gil([&] { return read(reads, watch.listener()); }));
}

Result<void> Archive::read(std::span<const ArchiveRead> reads, const ReadProgress& progress) const {
  return run_guarded([&]() -> Result<void> {
    if (!reads.empty()) CFCK_TRY(check_total(bytes_of(reads), *reads.back().tensor));
    Result<void> result = tensors().read_many(reads, progress);
    std::vector<bool> is_checked(opened_.size());
    for (const ArchiveRead& read : reads) {
      if (is_checked[read.tensor->file]) continue;
      result = checked(std::move(result), *read.tensor);
      is_checked[read.tensor->file] = true;
    }
    return result;
  });
}

void Archive::read_slice(std::size_t index, const std::vector<std::uint64_t>& starts,
                         const std::vector<std::uint64_t>& stops, std::uintptr_t address,
                         std::uint64_t n_bytes) const {
  const ArchiveTensor& what = tensor(index);
  take(without_gil([&] {
    return checked(tensors().read_slice(what, starts, stops, bytes_at(address, n_bytes)), what);
  }));
}

Result<void> Archive::checked(Result<void> read, const ArchiveTensor& tensor) const {
  return run_guarded([&]() -> Result<void> {
    const OpenedFile& file = opened_[tensor.file];
    const std::string& path = tensors().files()[tensor.file].path;
    const bool is_damage = !read && (read.error().code == ErrorCode::kChecksum ||
                                     read.error().code == ErrorCode::kCorrupt ||
                                     read.error().code == ErrorCode::kTruncated);
    const bool may_have_changed = read ? !file.is_proven : is_damage;
    const ByteSource* const source = tensors().files()[tensor.file].source;
    if (may_have_changed && file.stamp && source != nullptr &&
        detail::was_written_to(source->descriptor(), path, *file.stamp)) {
      return io_error(escaped(path) + " was changed after it was opened; open it again")
          .in_record(tensor.name);
    }
    if (read || !file.stamp || opened_.size() > 1) return std::move(read);
    return model::with_path(std::move(read).error(), path);
  });
}

Result<void> Archive::check_total(std::uint64_t n_bytes, const ArchiveTensor& last) const {
  if (max_decoded_bytes_ == 0 || n_bytes <= max_decoded_bytes_) return {};
  return run_guarded([&]() -> Result<void> {
    return model::too_many_decoded_bytes(n_bytes, max_decoded_bytes_).in_record(last.name);
  });
}

}  // namespace cfck::python
