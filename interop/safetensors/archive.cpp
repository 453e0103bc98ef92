// safetensors files as archives.
#include <memory>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/overlap.hpp"
#include "base/run_guarded.hpp"
#include "cfck/safetensors.hpp"
#include "format/write/sharing/alias_plan.hpp"
#include "interop/safetensors/header.hpp"
#include "interop/safetensors/write.hpp"
#include "model/formats/archive_format.hpp"
#include "model/listed_archive.hpp"

namespace cfck::model {
namespace {

class SafetensorsArchive final : public ListedArchive {
 public:
  SafetensorsArchive(std::unique_ptr<ByteSource> source, const DecodeOptions& options)
      : source_(std::move(source)), options_(options) {}

  Result<void> list() {
    CFCK_TRY_ASSIGN(header_, read_safetensors_header(*source_));
    files_.push_back({source_->name(), safetensors_format().name, source_->size(),
                      options_.limits.max_decoded_bytes, nullptr, source_.get()});
    tensors_.reserve(header_.entries.size() + header_.ties.size());
    for (const SafetensorsEntry& entry : header_.entries) {
      ArchiveTensor tensor;
      tensor.name = entry.name;
      tensor.dtype = entry.dtype;
      tensor.shape = entry.shape;
      tensor.n_bytes = tensor.stored_bytes = entry.n_bytes;
      tensor.offset_bytes = entry.offset_bytes;
      tensors_.push_back(std::move(tensor));
    }
    for (const SafetensorsTie& tie : header_.ties) {
      ArchiveTensor tensor = tensors_[tie.entry];
      tensor.name = tie.name;
      tensor.stored_bytes = 0;
      tensor.sharing = Sharing::kMemory;
      tensor.base = tie.entry;
      tensor.strides = format::contiguous_strides(tensor.shape);
      tensor.named_by_metadata = true;
      tensors_.push_back(std::move(tensor));
    }
    metadata_ = header_.metadata;
    attachments_.push_back({std::string(interop::kSafetensorsHeaderAttachment), header_.json.size(),
                            header_.json.size()});
    return finish_list();
  }

  Result<std::vector<std::byte>> attachment(std::string_view name) const override {
    return run_guarded([&]() -> Result<std::vector<std::byte>> {
      if (name != interop::kSafetensorsHeaderAttachment) return ListedArchive::attachment(name);
      const auto bytes = std::as_bytes(std::span(header_.json));
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    });
  }

  Result<void> read_many(std::span<const ArchiveRead> reads,
                         const ReadProgress& progress) const override {
    return run_guarded([&]() -> Result<void> {
      std::vector<SafetensorsRead> requests;
      std::uint64_t total_bytes = 0;
      for (const ArchiveRead& read : reads) {
        CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(read.tensor));
        total_bytes += listed->n_bytes;  // of a file: cannot wrap soon
        CFCK_TRY(check_decoded_bytes(*listed, total_bytes));
        requests.push_back({&entry_of(*listed), read.out});
      }
      return read_safetensors(*source_, requests, progress, options_.threads);
    });
  }

  Result<void> read_elements(const ArchiveTensor& tensor, std::uint64_t first_elem,
                             std::uint64_t n_elems, MutableBytes out) const override {
    return run_guarded([&]() -> Result<void> {
      CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
      CFCK_TRY(check_elements(*listed, first_elem, n_elems, out));
      CFCK_TRY(check_apart(out, *source_, listed->name));
      const std::uint64_t bits = bits_per_element(listed->dtype);
      const std::uint64_t first_byte = first_elem / 8 * bits + first_elem % 8 * bits / 8;
      return source_->read_at(entry_of(*listed).offset_bytes + first_byte, out);
    });
  }

  Result<void> read_slice(const ArchiveTensor& tensor, std::span<const std::uint64_t> starts,
                          std::span<const std::uint64_t> stops, MutableBytes out) const override {
    return run_guarded([&]() -> Result<void> {
      CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
      CFCK_TRY(check_decoded_bytes(*listed, out.size()));
      return read_safetensors_slice(*source_, entry_of(*listed), starts, stops, out);
    });
  }

 private:
  // The tensor must be one of tensors_.
  const SafetensorsEntry& entry_of(const ArchiveTensor& tensor) const {
    return header_.entries[tensor.base];
  }

  std::unique_ptr<ByteSource> source_;
  DecodeOptions options_;
  SafetensorsHeader header_;
};

// The function that reads the header checks its length.
bool begins_header(std::string_view head) {
  return head.size() > interop::kSafetensorsLengthBytes &&
         head[interop::kSafetensorsLengthBytes] == '{';
}

bool begins_possible_header(std::string_view head) {
  if (head.size() <= interop::kSafetensorsLengthBytes) return false;
  const auto header_bytes = load<std::uint64_t>(reinterpret_cast<const std::byte*>(head.data()));
  if (header_bytes > interop::kMaxSafetensorsHeaderBytes) return false;
  // safetensors takes white space before the header, which may be more than `head` has.
  head.remove_prefix(interop::kSafetensorsLengthBytes);
  const auto begin = head.find_first_not_of(interop::kJsonSpaces);
  return begin == head.npos ? header_bytes > head.size() : head[begin] == '{';
}

Result<std::unique_ptr<TensorArchive>> open_safetensors(std::unique_ptr<ByteSource> source,
                                                        const ArchiveOptions& options) {
  auto archive = std::make_unique<SafetensorsArchive>(std::move(source), options.decode);
  CFCK_TRY(archive->list());
  return std::unique_ptr<TensorArchive>(std::move(archive));
}

}  // namespace

const ArchiveFormat& safetensors_format() {
  static const ArchiveFormat kFormat = {
      "safetensors",     ".safetensors",          false,         &begins_possible_header,
      &open_safetensors, &interop::create_writer, &begins_header};
  return kFormat;
}

}  // namespace cfck::model
