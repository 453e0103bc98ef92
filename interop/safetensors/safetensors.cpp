#include "cfck/safetensors.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "base/bytes.hpp"
#include "base/run_guarded.hpp"
#include "base/threads/threads.hpp"
#include "format/read/element_view.hpp"
#include "format/read/open_file.hpp"
#include "format/read/reader_access.hpp"
#include "interop/safetensors/safetensors_header.hpp"
#include "interop/safetensors/safetensors_ties.hpp"

namespace cfck {
namespace {

using format::kMaxSafetensorsHeaderBytes;
using format::kSafetensorsHeaderAttachment;
using format::kSafetensorsLengthBytes;

// Decoded bytes that a job collects before it is handed to a worker: many small
// tensors together, so that a job is worth its overhead.
constexpr std::uint64_t kJobBytes = std::uint64_t{1} << 20;

Result<SafetensorsHeader> read_header(const ByteSource& source) {
  const std::uint64_t file_bytes = source.size();
  if (file_bytes < kSafetensorsLengthBytes) {
    return Error{ErrorCode::kTruncated,
                 "a safetensors file has at least 8 bytes, this one has " +
                     std::to_string(file_bytes) + "; fetch it again",
                 {},
                 0};
  }
  std::byte length_bytes[kSafetensorsLengthBytes];
  CFCK_TRY(source.read_at(0, length_bytes));
  const auto header_bytes = load<std::uint64_t>(length_bytes);
  if (header_bytes > kMaxSafetensorsHeaderBytes) {
    return Error{ErrorCode::kLimitExceeded,
                 "not a safetensors file, or one with a header above the 100 MB that safetensors "
                 "allows: its length is given as " +
                     std::to_string(header_bytes) + " bytes",
                 {},
                 0};
  }
  if (header_bytes > file_bytes - kSafetensorsLengthBytes) {
    return Error{ErrorCode::kTruncated,
                 "the safetensors header should have " + std::to_string(header_bytes) +
                     " bytes, but the file ends before; fetch it again",
                 {},
                 0};
  }
  std::string json(header_bytes, '\0');
  CFCK_TRY(source.read_at(kSafetensorsLengthBytes,
                          MutableBytes(reinterpret_cast<std::byte*>(json.data()), json.size())));
  return format::parse_safetensors_header(std::move(json),
                                          file_bytes - kSafetensorsLengthBytes - header_bytes);
}

// Whether the file holds the tensors of the header, in its own order, and besides them
// nothing but names that the header ties to them.
bool same_tensors(const SafetensorsHeader& header, const Reader& reader, std::size_t n_named) {
  if (header.metadata != reader.metadata()) return false;
  std::size_t n_known = header.entries.size();
  for (const SafetensorsEntry& entry : header.entries) {
    const Record* record = reader.find(entry.name);
    if (record == nullptr || record->dtype != entry.dtype || record->shape != entry.shape) {
      return false;
    }
  }
  for (const SafetensorsTie& tie : header.ties) {
    const Record* record = reader.find(tie.name);
    if (record == nullptr) continue;
    const Record& kept = *reader.find(header.entries[tie.entry].name);
    if (format::are_tied(reader.records(), *record, kept)) ++n_known;
  }
  return n_known == n_named;
}

// The header this file was made from, if it is kept and still true.
Result<std::optional<SafetensorsHeader>> kept_header(const Reader& reader, std::size_t n_named) {
  const auto attachments = reader.attachments();
  // What is longer than safetensors allows was never a header.
  const bool kept = std::any_of(attachments.begin(), attachments.end(), [](const auto& attachment) {
    return attachment.name == kSafetensorsHeaderAttachment &&
           attachment.decoded_bytes <= kMaxSafetensorsHeaderBytes;
  });
  if (!kept) return std::optional<SafetensorsHeader>();
  CFCK_TRY_ASSIGN(const auto bytes, reader.attachment(kSafetensorsHeaderAttachment));
  const std::string_view json(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto original =
      format::check_safetensors_header(json, std::nullopt, {n_named, reader.metadata().size()});
  if (!original || !same_tensors(*original, reader, n_named)) {
    return std::optional<SafetensorsHeader>();
  }
  original->json = json;
  return std::optional(std::move(*original));
}

Result<SafetensorsHeader> new_header(const Reader& reader) {
  const auto dropped = format::dropped_names(reader.records());
  std::vector<SafetensorsEntry> entries;
  for (const Record& record : reader.records()) {
    if (record.hidden || dropped.contains(record.name)) continue;
    entries.push_back({record.name, record.dtype, record.shape, 0, record.decoded_bytes});
  }
  Metadata metadata = reader.metadata();
  for (const auto& [name, kept] : dropped) metadata.emplace(name, kept);
  return format::make_safetensors_header(std::move(entries), std::move(metadata));
}

Result<SafetensorsHeader> header_for(const Reader& reader) {
  std::size_t n_named = 0;
  for (const Record& record : reader.records()) {
    if (record.hidden) continue;
    ++n_named;
    if (bits_per_element(record.dtype) == 0) {
      return Error{ErrorCode::kUnsupported,
                   "the dtype is of a newer version of cfck, and safetensors may not have it",
                   record.name,
                   {}};
    }
  }
  CFCK_TRY_ASSIGN(std::optional<SafetensorsHeader> kept, kept_header(reader, n_named));
  return kept ? std::move(*kept) : new_header(reader);
}

// Elements of one record that a job decodes to `out_offset` of its buffer.
struct Piece {
  const Record* record = nullptr;
  std::uint64_t first_elem = 0;
  std::uint64_t n_elems = 0;
  std::uint64_t out_offset = 0;
  std::uint64_t n_bytes = 0;
};

struct Output {
  const Reader& reader;
  ByteSink& sink;
  const ReadProgress& progress;
  std::uint64_t done_bytes = 0;
};

// Decodes pieces on a worker; writes them when its turn comes.
class DecodeJob final : public OrderedPipeline::Job {
 public:
  explicit DecodeJob(Output& output) : output_(output) {}

  std::uint64_t n_bytes() const { return n_bytes_; }

  void add(Piece piece) {
    piece.out_offset = n_bytes_;
    n_bytes_ += piece.n_bytes;
    pieces_.push_back(piece);
  }

  Result<void> run(unsigned) override {
    bytes_.resize(n_bytes_);
    const MutableBytes all(bytes_);
    std::vector<ReadRequest> whole;
    for (const Piece& piece : pieces_) {
      const MutableBytes out = all.subspan(piece.out_offset, piece.n_bytes);
      if (piece.n_elems == piece.record->n_elems) {
        whole.push_back({piece.record, out});
      } else {
        CFCK_TRY(output_.reader.read_elements(*piece.record, piece.first_elem, piece.n_elems, out));
      }
    }
    return output_.reader.read_many(whole);
  }

  Result<void> finish() override {
    CFCK_TRY(output_.sink.write(bytes_));
    output_.done_bytes += n_bytes_;
    if (output_.progress && !output_.progress(output_.done_bytes, pieces_.back().record->name)) {
      return Error{ErrorCode::kInvalidArgument, "cancelled", {}, {}};
    }
    return {};
  }

 private:
  Output& output_;
  std::vector<Piece> pieces_;
  std::uint64_t n_bytes_ = 0;
  std::vector<std::byte> bytes_;
};

bool is_contiguous(const Record& record) {
  std::uint64_t expected = 1;
  for (std::size_t i = record.shape.size(); i-- > 0;) {
    if (record.shape[i] != 1 && record.strides[i] != expected) return false;
    expected *= record.shape[i];
  }
  return true;
}

// Elements to decode at a time: whole chunks of what stores the values.
std::uint64_t elems_per_piece(const Reader& reader, const Record& record) {
  // Elsewhere the elements lie scattered over all chunks of the base, which a small base has few
  // of: an alias may repeat it many times.
  if (record.kind == RecordKind::kAlias && !is_contiguous(record)) {
    if (reader.records()[record.base].decoded_bytes > kJobBytes) return record.n_elems;
    return std::min(record.n_elems, kJobBytes / bits_per_element(record.dtype) * 8);
  }
  const bool shares = record.kind == RecordKind::kAlias || record.kind == RecordKind::kDuplicate;
  const Record& stored = shares ? reader.records()[record.base] : record;
  return std::min(record.n_elems, std::max<std::uint64_t>(stored.chunk_elems, 8));
}

Result<void> write_tensors(const Reader& reader, const SafetensorsHeader& header, ByteSink& sink,
                           const ReadProgress& progress, unsigned threads) {
  Output output{reader, sink, progress, 0};
  OrderedPipeline pipeline(resolve_threads(threads));
  auto job = std::make_unique<DecodeJob>(output);
  for (const SafetensorsEntry& entry : header.entries) {
    const Record& record = *reader.find(entry.name);
    const std::uint64_t piece_elems = elems_per_piece(reader, record);
    for (std::uint64_t first = 0; first < record.n_elems; first += piece_elems) {
      const std::uint64_t count = std::min(piece_elems, record.n_elems - first);
      // Pieces but the last are multiples of 8 elements for sub-byte dtypes. A view with gaps may
      // claim far more than the file has.
      const std::uint64_t n_bytes = format::byte_of(count, bits_per_element(record.dtype));
      CFCK_TRY(reader.check_decoded_bytes(n_bytes, entry.name));
      job->add({&record, first, count, 0, n_bytes});
      if (job->n_bytes() >= kJobBytes) {
        CFCK_TRY(pipeline.submit(std::move(job)));
        job = std::make_unique<DecodeJob>(output);
      }
    }
  }
  if (job->n_bytes() > 0) CFCK_TRY(pipeline.submit(std::move(job)));
  return pipeline.drain();
}

}  // namespace

Result<SafetensorsHeader> read_safetensors_header(const ByteSource& source) {
  return run_guarded([&] { return read_header(source); });
}

Result<SafetensorsHeader> safetensors_header_for(const Reader& reader) {
  return run_guarded([&] { return header_for(reader); });
}

Result<void> add_safetensors(Writer& writer, const ByteSource& source,
                             const SafetensorsHeader& header) {
  return run_guarded([&]() -> Result<void> {
    for (const auto& [key, value] : header.metadata) CFCK_TRY(writer.set_metadata(key, value));
    CFCK_TRY(writer.attach(kSafetensorsHeaderAttachment, std::as_bytes(std::span(header.json))));
    for (const SafetensorsEntry& entry : header.entries) {
      CFCK_TRY(writer.add(entry.name,
                          TensorSource{entry.dtype, entry.shape, &source, entry.offset_bytes}));
    }
    for (const SafetensorsTie& tie : header.ties) {
      // Where that is not possible, the metadata still says it.
      CFCK_TRY(writer.tie(tie.name, header.entries[tie.entry].name));
    }
    return {};
  });
}

Result<void> write_safetensors(const Reader& reader, ByteSink& sink, const ReadProgress& progress,
                               unsigned threads) {
  return run_guarded([&]() -> Result<void> {
    CFCK_TRY(format::check_open(reader));
    CFCK_TRY_ASSIGN(const SafetensorsHeader header, header_for(reader));
    std::uint64_t total_bytes = 0;
    for (const SafetensorsEntry& entry : header.entries) {
      if (!checked_add(total_bytes, entry.n_bytes, total_bytes)) total_bytes = ~std::uint64_t{0};
    }
    CFCK_TRY(ReaderAccess::file(reader).check_decoded_bytes(total_bytes, {}));
    std::byte length_bytes[kSafetensorsLengthBytes];
    store<std::uint64_t>(length_bytes, header.json.size());
    CFCK_TRY(sink.write(length_bytes));
    CFCK_TRY(sink.write(std::as_bytes(std::span(header.json))));
    return write_tensors(reader, header, sink, progress, threads);
  });
}

}  // namespace cfck
