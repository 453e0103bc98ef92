#include "model/cfck_archive.hpp"

#include <memory>
#include <optional>
#include <utility>

#include "base/run_guarded.hpp"
#include "cfck/reader.hpp"
#include "format/read/chunks/open_file.hpp"
#include "format/read/reader_access.hpp"
#include "model/formats/archive_format.hpp"
#include "model/listed_archive.hpp"

namespace cfck::model {
namespace {

constexpr std::string_view kFrameMagic = "\x5C\x2A\x4D\x18";

ArchiveTensor tensor_of(const Record& record) {
  ArchiveTensor tensor;
  tensor.name = record.name;
  tensor.hidden = record.hidden;
  tensor.dtype = record.dtype;
  tensor.shape = record.shape;
  tensor.n_bytes = record.decoded_bytes;
  tensor.stored_bytes = record.stored_bytes;
  tensor.chunk_elems = record.chunk_elems;
  if (record.kind == RecordKind::kAlias) tensor.sharing = Sharing::kMemory;
  if (record.kind == RecordKind::kDuplicate) tensor.sharing = Sharing::kBytes;
  tensor.base = record.base;
  tensor.element_offset = record.element_offset;
  tensor.strides = record.strides;
  tensor.record = &record;
  return tensor;
}

// Returns the limit that the reader was opened with; 0 for a reader that was moved from.
std::uint64_t max_decoded_bytes(const Reader& reader) {
  const format::OpenFile* const file = ReaderAccess::file_or_null(reader);
  return file == nullptr ? 0 : file->max_decoded_bytes;
}

class CfckArchive final : public ListedArchive {
 public:
  CfckArchive(std::unique_ptr<ByteSource> source, Reader reader)
      : source_(std::move(source)), own_(std::move(reader)), reader_(*own_) {}
  explicit CfckArchive(const Reader& reader) : reader_(reader) {}

  Result<void> list() {
    files_.push_back({source_ ? source_->name() : "<memory>", cfck_format().name,
                      source_ ? source_->size() : reader_.file_bytes(), max_decoded_bytes(reader_),
                      &reader_, source_.get()});
    tensors_.reserve(reader_.records().size());
    for (const Record& record : reader_.records()) tensors_.push_back(tensor_of(record));
    metadata_ = reader_.metadata();
    const auto attachments = reader_.attachments();
    attachments_.assign(attachments.begin(), attachments.end());
    return finish_list();
  }

  Result<std::vector<std::byte>> attachment(std::string_view name) const override {
    return reader_.attachment(name);
  }

  Result<void> check_decoded_bytes(const ArchiveTensor& tensor,
                                   std::uint64_t n_bytes) const override {
    CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
    return reader_.check_decoded_bytes(n_bytes, listed->name);
  }

  Result<void> read_many(std::span<const ArchiveRead> reads,
                         const ReadProgress& progress) const override {
    return run_guarded([&]() -> Result<void> {
      std::vector<ReadRequest> requests;
      for (const ArchiveRead& read : reads) {
        CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(read.tensor));
        requests.push_back({listed->record, read.out});
      }
      return reader_.read_many(requests, progress);
    });
  }

  Result<void> read_elements(const ArchiveTensor& tensor, std::uint64_t first_elem,
                             std::uint64_t n_elems, MutableBytes out) const override {
    CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
    return reader_.read_elements(*listed->record, first_elem, n_elems, out);
  }

  Result<void> read_slice(const ArchiveTensor& tensor, std::span<const std::uint64_t> starts,
                          std::span<const std::uint64_t> stops, MutableBytes out) const override {
    CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
    return reader_.read_slice(*listed->record, starts, stops, out);
  }

  Result<VerifyReport> verify(VerifyLevel level, const ReadProgress& progress) const override {
    return reader_.verify(level, progress);
  }

 private:
  std::unique_ptr<ByteSource> source_;  // nullptr with a reader of the caller
  std::optional<Reader> own_;
  const Reader& reader_;
};

Result<std::unique_ptr<TensorArchive>> open_cfck(std::unique_ptr<ByteSource> source,
                                                 const ArchiveOptions& options) {
  CFCK_TRY_ASSIGN(Reader reader, Reader::open(*source, options.decode));
  auto archive = std::make_unique<CfckArchive>(std::move(source), std::move(reader));
  CFCK_TRY(archive->list());
  return std::unique_ptr<TensorArchive>(std::move(archive));
}

}  // namespace

Result<std::unique_ptr<TensorArchive>> borrow_reader(const Reader& reader) {
  auto archive = std::make_unique<CfckArchive>(reader);
  CFCK_TRY(archive->list());
  return std::unique_ptr<TensorArchive>(std::move(archive));
}

const ArchiveFormat& cfck_format() {
  static const ArchiveFormat kFormat = {
      "cfck",     ".cfck",
      true,       [](std::string_view head) { return head.starts_with(kFrameMagic); },
      &open_cfck, &create_cfck};
  return kFormat;
}

}  // namespace cfck::model
