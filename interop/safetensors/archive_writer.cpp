// Writes archives as safetensors files.
#include "cfck/archive_writer.hpp"

#include <memory>
#include <string>
#include <utility>

#include "interop/safetensors/ties.hpp"
#include "interop/safetensors/write.hpp"
#include "model/collecting_writer.hpp"

namespace cfck::interop {
namespace {

// The header comes first, so finish() writes everything.
class SafetensorsArchiveWriter final : public model::CollectingWriter {
 public:
  SafetensorsArchiveWriter(ByteSink& sink, unsigned threads) : sink_(sink), threads_(threads) {}

  Result<void> add(std::string_view name, const TensorSource& tensor) override {
    CFCK_TRY(check_name(name));
    return CollectingWriter::add(name, tensor);
  }
  Result<void> add(std::string_view name, const TensorView& tensor) override {
    CFCK_TRY(check_name(name));
    return CollectingWriter::add(name, tensor);
  }
  Result<bool> tie(std::string_view name, std::string_view base) override {
    if (name == kMetadataKey || name.size() > kMaxTiedNameBytes) return false;
    return CollectingWriter::tie(name, base);
  }
  Result<void> add_archive(const TensorArchive& archive) override {
    for (const ArchiveTensor& tensor : archive.tensors()) {
      if (!tensor.hidden) CFCK_TRY(check_name(tensor.name));
    }
    return CollectingWriter::add_archive(archive);
  }

  Result<ArchiveSummary> finish() override {
    CFCK_TRY(contents_.finish());
    CFCK_TRY_ASSIGN(const SafetensorsHeader header, header_for(contents_));
    CFCK_TRY(write_archive(contents_, header, sink_, progress_, threads_));
    ArchiveSummary summary = counted();
    for (const SafetensorsTie& tie : header.ties) summary.metadata_names.push_back(tie.name);
    summary.file_bytes = file_bytes(header);
    for (const SafetensorsEntry& entry : header.entries) summary.stored_bytes += entry.n_bytes;
    return summary;
  }

 private:
  static Result<void> check_name(std::string_view name) {
    if (name != kMetadataKey) return {};
    return invalid_argument(
               "safetensors reserves this name for its metadata; give the tensor another one")
        .in_record(std::string(name));
  }

  ByteSink& sink_;
  unsigned threads_;
};

}  // namespace

Result<std::unique_ptr<ArchiveWriter>> create_writer(ByteSink& sink, const EncodeOptions& options) {
  return std::unique_ptr<ArchiveWriter>(
      std::make_unique<SafetensorsArchiveWriter>(sink, options.threads));
}

}  // namespace cfck::interop
