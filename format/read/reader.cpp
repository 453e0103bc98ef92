#include "cfck/reader.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "base/device.hpp"
#include "base/forks/forks.hpp"
#include "base/hashing/hashing.hpp"
#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "base/threads/threads.hpp"
#include "format/read/boxes.hpp"
#include "format/read/chunks/open_file.hpp"
#include "format/read/find_base.hpp"
#include "format/read/plan.hpp"
#include "format/read/reader_access.hpp"
#include "format/read/verify.hpp"

namespace cfck {

using format::box_shape;
using format::box_view;
using format::check_out;
using format::ElementView;
using format::OpenFile;
using format::own_readable;
using format::range_bytes;
using format::ReadPlan;
using format::StoredRecord;
using format::wrong_call;

struct Reader::Impl {
  std::unique_ptr<const ByteSource> source;  // nullptr if it is the caller's
  std::unique_ptr<OpenFile> file;
};

namespace {

// Hashes all chunks of a raw record in place.
Result<void> check_in_place(const OpenFile& file, const StoredRecord& stored, ByteView bytes,
                            const std::string& name) {
  std::vector<std::uint64_t> offsets;
  std::uint64_t offset_bytes = stored.offset_bytes;
  for (std::uint64_t i = 0; i < stored.record.n_chunks; ++i) {
    offsets.push_back(offset_bytes);
    offset_bytes += file.index.chunks[stored.first_chunk + i].n_bytes;
  }
  return parallel_for(offsets.size(), resolve_threads(file.options.threads),
                      [&](std::size_t i, unsigned) -> Result<void> {
                        const format::ChunkEntry& entry = file.index.chunks[stored.first_chunk + i];
                        if (tiled_hash64(bytes.subspan(offsets[i], entry.n_bytes)) != entry.hash) {
                          return wrong_checksum("a chunk is damaged: its hash does not match")
                              .in_record(name)
                              .at_byte(offsets[i]);
                        }
                        return {};
                      });
}

}  // namespace

namespace {

// Calls `function` with the open file; returns an error for a reader that was moved from, which has
// none.
template <class Function>
std::invoke_result_t<Function, const OpenFile&> with_file(const Reader& reader,
                                                          Function&& function) {
  return run_guarded([&]() -> std::invoke_result_t<Function, const OpenFile&> {
    CFCK_TRY(format::check_open(reader));
    return std::forward<Function>(function)(ReaderAccess::file(reader));
  });
}

}  // namespace

Reader::Reader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Reader::~Reader() = default;
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;

Result<Reader> Reader::open(const ByteSource& source, DecodeOptions options) {
  return run_guarded([&]() -> Result<Reader> {
    CFCK_TRY_ASSIGN(std::unique_ptr<OpenFile> file, OpenFile::open(source, std::move(options)));
    return Reader(std::make_unique<Impl>(Impl{nullptr, std::move(file)}));
  });
}

Result<Reader> Reader::open(std::unique_ptr<const ByteSource> source, DecodeOptions options) {
  return run_guarded([&]() -> Result<Reader> {
    if (source == nullptr) {
      return invalid_argument("there is no source to read from");
    }
    return ReaderAccess::open(std::move(source), std::move(options), format::BaseChain());
  });
}

Result<Reader> Reader::open(const std::string& path, DecodeOptions options, ReadMode mode,
                            FileSystem& files) {
  CFCK_TRY_ASSIGN(std::unique_ptr<const ByteSource> source, open_file(path, mode, files));
  return open(std::move(source), std::move(options));
}

std::span<const Record> Reader::records() const {
  return impl_ ? std::span<const Record>(impl_->file->records) : std::span<const Record>();
}

const Record* Reader::find(std::string_view name) const {
  if (!impl_) {
    return nullptr;
  }
  const OpenFile& file = *impl_->file;
  const auto found = std::lower_bound(file.by_name.begin(), file.by_name.end(), name,
                                      [&](std::uint32_t number, std::string_view text) {
                                        return file.records[number].name < text;
                                      });
  return found != file.by_name.end() && file.records[*found].name == name ? &file.records[*found]
                                                                          : nullptr;
}

const Metadata& Reader::metadata() const {
  static constinit MadeOnce<Metadata> none;
  return impl_ ? impl_->file->metadata.entries : none.get([] { return Metadata(); });
}

std::span<const Attachment> Reader::attachments() const {
  return impl_ ? std::span<const Attachment>(impl_->file->attachments)
               : std::span<const Attachment>();
}

std::uint64_t Reader::file_bytes() const { return impl_ ? impl_->file->tail.file_bytes : 0; }
std::uint64_t Reader::generation() const { return impl_ ? impl_->file->tail.generation : 0; }
std::uint64_t Reader::dead_bytes() const { return impl_ ? impl_->file->dead_bytes : 0; }
Digest Reader::content_digest() const { return impl_ ? impl_->file->content_digest : Digest{}; }

bool Reader::needs_base() const { return impl_ && format::needs_base(impl_->file->index); }

std::uint64_t Reader::chain_length() const {
  return impl_ && impl_->file->base ? 1 + impl_->file->base->chain_length() : 0;
}

std::string_view Reader::base_name() const {
  return impl_ ? std::string_view(impl_->file->index.base_name) : std::string_view();
}

Result<void> Reader::check_base() const {
  return with_file(*this, [&](const OpenFile& file) {
    return parallel_for(
        file.index.records.size(), resolve_threads(file.options.threads),
        [&](std::size_t number, unsigned) { return file.check_base(file.index.records[number]); });
  });
}

std::string Reader::format_version() const {
  if (!impl_) {
    return {};
  }
  const format::Tail& tail = impl_->file->tail;
  return std::to_string(tail.major) + "." + std::to_string(tail.minor);
}

Result<void> Reader::check_decoded_bytes(std::uint64_t n_bytes, std::string_view name) const {
  return with_file(*this, [&](const OpenFile& file) {
    return file.check_decoded_bytes(n_bytes, std::string(name));
  });
}

Result<void> Reader::read(const Record& record, MutableBytes out) const {
  const ReadRequest request{&record, out};
  return read_many(std::span(&request, 1));
}

Result<OwnedTensor> Reader::read(const Record& record) const {
  return with_file(*this, [&](const OpenFile& file) -> Result<OwnedTensor> {
    CFCK_TRY_ASSIGN(const Record* const own, own_readable(file, record));
    CFCK_TRY(file.check_decoded_bytes(own->decoded_bytes, own->name));
    CFCK_TRY_ASSIGN(OwnedTensor tensor, OwnedTensor::allocate(own->dtype, own->shape));
    CFCK_TRY(read(*own, tensor.bytes()));
    return tensor;
  });
}

Result<OwnedTensor> Reader::read(std::string_view name) const {
  return with_file(*this, [&](const OpenFile&) -> Result<OwnedTensor> {
    const Record* const record = find(name);
    if (record == nullptr) {
      return not_found("the file has no tensor '" + escaped(name) + "'")
          .in_record(std::string(name));
    }
    return read(*record);
  });
}

Result<void> Reader::read_many(std::span<const ReadRequest> requests,
                               const ReadProgress& progress) const {
  return with_file(*this, [&](const OpenFile& file) -> Result<void> {
    std::uint64_t total_bytes = 0;
    std::vector<const Record*> records;
    for (const ReadRequest& request : requests) {
      if (request.record == nullptr) {
        return wrong_call("a request names no record", {});
      }
      CFCK_TRY_ASSIGN(records.emplace_back(), own_readable(file, *request.record));
      const Record& record = *records.back();
      CFCK_TRY(check_on_host(request.device, record.name));
      if (!checked_add(total_bytes, record.decoded_bytes, total_bytes)) {
        total_bytes = ~std::uint64_t{0};
      }
      CFCK_TRY(file.check_decoded_bytes(total_bytes, record.name));
      CFCK_TRY(check_out(file, record, record.decoded_bytes, request.out));
    }
    ReadPlan plan(file, progress);
    // Records that others can be copied from come first.
    for (const bool aliases : {false, true}) {
      for (std::size_t i = 0; i < records.size(); ++i) {
        if ((records[i]->kind == RecordKind::kAlias) == aliases) {
          CFCK_TRY(plan.wanted().add_whole(*records[i], requests[i].out));
        }
      }
    }
    return plan.run();
  });
}

Result<void> Reader::read_elements(const Record& asked, std::uint64_t first_elem,
                                   std::uint64_t n_elems, MutableBytes out) const {
  return with_file(*this, [&](const OpenFile& file) -> Result<void> {
    CFCK_TRY_ASSIGN(const Record* const own, own_readable(file, asked));
    const Record& record = *own;
    CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, range_bytes(record, first_elem, n_elems));
    CFCK_TRY(file.check_decoded_bytes(n_bytes, record.name));
    CFCK_TRY(check_out(file, record, n_bytes, out));
    if (n_elems == 0) {
      return {};
    }
    const ReadProgress silent;
    ReadPlan plan(file, silent);
    CFCK_TRY(plan.wanted().add(
        {&record, &file.base_of(record), format::view_of(record), first_elem, n_elems, out}));
    return plan.run();
  });
}

Result<void> Reader::read_slice(const Record& asked, std::span<const std::uint64_t> starts,
                                std::span<const std::uint64_t> stops, MutableBytes out) const {
  return with_file(*this, [&](const OpenFile& file) -> Result<void> {
    CFCK_TRY_ASSIGN(const Record* const own, own_readable(file, asked));
    const Record& record = *own;
    CFCK_TRY_ASSIGN(const Shape shape, box_shape(record, starts, stops));
    CFCK_TRY_ASSIGN(const std::uint64_t count, n_elems(shape));
    CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, range_bytes(record, 0, count));
    CFCK_TRY(file.check_decoded_bytes(n_bytes, record.name));
    CFCK_TRY(check_out(file, record, n_bytes, out));
    if (count == 0) {
      return {};
    }
    const ReadProgress silent;
    ReadPlan plan(file, silent);
    CFCK_TRY(plan.wanted().add(
        {&record, &file.base_of(record), box_view(record, starts, shape), 0, count, out}));
    return plan.run();
  });
}

Result<ByteView> Reader::map(const Record& asked) const {
  return with_file(*this, [&](const OpenFile& file) -> Result<ByteView> {
    CFCK_TRY_ASSIGN(const Record* const own, own_readable(file, asked));
    const Record& record = *own;
    const ByteView bytes = file.source->mapped();
    const auto refuse = [&](const char* reason) {
      return unsupported(std::string("the tensor cannot be mapped: ") + reason +
                         ". Read it instead")
          .in_record(record.name);
    };
    if (bytes.size() < file.tail.file_bytes) {
      return refuse("the file is not in memory");
    }
    if (record.n_elems == 0) {
      return ByteView();
    }
    const StoredRecord& stored = file.base_of(record);
    if (record.kind == RecordKind::kAlias || stored.record.kind != RecordKind::kChunked ||
        stored.record.codec != CodecId::kRaw) {
      return refuse("it is not stored as raw bytes in one piece");
    }
    const std::uint64_t start_bytes = format::raw_start_bytes(stored.offset_bytes);
    if (stored.record.stored_bytes != start_bytes + stored.record.decoded_bytes) {
      return refuse("it is stored in several frames");
    }
    CFCK_TRY(check_in_place(file, stored, bytes, record.name));
    return bytes.subspan(stored.offset_bytes + start_bytes, stored.record.decoded_bytes);
  });
}

Result<std::vector<std::byte>> Reader::attachment(std::string_view name) const {
  return with_file(*this, [&](const OpenFile& file) -> Result<std::vector<std::byte>> {
    for (const format::StoredAttachment& stored : file.metadata.attachments) {
      if (stored.name == name) {
        return file.read_attachment(stored, file.options.verify_chunks);
      }
    }
    return not_found("the file has no attachment '" + std::string(name) + "'");
  });
}

Result<VerifyReport> Reader::verify(VerifyLevel level, const ReadProgress& progress) const {
  return with_file(
      *this, [&](const OpenFile& file) { return format::verify_file(file, level, progress); });
}

Result<Reader> ReaderAccess::open(std::unique_ptr<const ByteSource> source, DecodeOptions options,
                                  const format::BaseChain& chain) {
  CFCK_TRY_ASSIGN(std::unique_ptr<OpenFile> file,
                  OpenFile::open(*source, std::move(options), chain));
  return Reader(std::make_unique<Reader::Impl>(Reader::Impl{std::move(source), std::move(file)}));
}
const OpenFile* ReaderAccess::file_or_null(const Reader& reader) {
  return reader.impl_ ? reader.impl_->file.get() : nullptr;
}
const OpenFile& ReaderAccess::file(const Reader& reader) { return *reader.impl_->file; }
const ByteSource& ReaderAccess::source(const Reader& reader) { return *reader.impl_->file->source; }
const format::Tail& ReaderAccess::tail(const Reader& reader) { return reader.impl_->file->tail; }
const format::Index& ReaderAccess::index(const Reader& reader) { return reader.impl_->file->index; }
const format::MetadataFrame& ReaderAccess::metadata(const Reader& reader) {
  return reader.impl_->file->metadata;
}

std::uint64_t ReaderAccess::chunk_offset(const Reader& reader, const format::StoredRecord& record,
                                         std::uint64_t chunk) {
  std::uint64_t offset_bytes = record.offset_bytes;
  for (std::uint64_t i = record.first_chunk; i < chunk; ++i) {
    offset_bytes += reader.impl_->file->index.chunks[i].n_bytes;
  }
  return offset_bytes;
}

namespace format {

Result<void> check_open(const Reader& reader) {
  if (ReaderAccess::file_or_null(reader) == nullptr) {
    return wrong_call("the reader was moved from", {});
  }
  return {};
}

Result<void> PrefixSource::read_at(std::uint64_t offset_bytes, MutableBytes out) const {
  if (offset_bytes > n_bytes_ || out.size() > n_bytes_ - offset_bytes) {
    return truncated("the generation ends before the requested bytes").at_byte(offset_bytes);
  }
  return whole_.read_at(offset_bytes, out);
}

ByteView PrefixSource::mapped() const {
  const ByteView bytes = whole_.mapped();
  return bytes.empty() ? bytes : bytes.first(n_bytes_);
}

}  // namespace format
}  // namespace cfck
