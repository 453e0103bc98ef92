// Writes archives as safetensors files.
#include <memory>
#include <string>
#include <utility>

#include "cfck/archive_writer.hpp"
#include "interop/safetensors/safetensors_ties.hpp"
#include "interop/safetensors/safetensors_write.hpp"
#include "model/collected_archive.hpp"

namespace cfck::interop {
namespace {

// Collects tensors: the header comes first, so finish() writes everything. ArchiveWriter::create
// wraps it in what keeps states and catches exceptions.
class SafetensorsArchiveWriter final : public ArchiveWriter {
 public:
  SafetensorsArchiveWriter(ByteSink& sink, unsigned threads) : sink_(sink), threads_(threads) {}

  Result<void> add(std::string_view name, const TensorSource& tensor) override {
    CFCK_TRY(check_name(name));
    return contents_.add(name, tensor);
  }
  Result<void> add(std::string_view name, const TensorView& tensor) override {
    CFCK_TRY(check_name(name));
    return contents_.add(name, tensor);
  }
  Result<bool> tie(std::string_view name, std::string_view base) override {
    if (name == kMetadataKey || name.size() > kMaxTiedNameBytes) return false;
    return contents_.tie(name, base);
  }
  Result<void> set_metadata(std::string_view key, std::string_view value) override {
    return contents_.set_metadata(key, value);
  }
  Result<void> attach(std::string_view name, ByteView bytes) override {
    return contents_.attach(name, bytes);
  }
  Result<void> add_archive(const TensorArchive& archive) override {
    for (const ArchiveTensor& tensor : archive.tensors()) {
      if (!tensor.hidden) CFCK_TRY(check_name(tensor.name));
    }
    return contents_.add_archive(archive);
  }
  void set_progress(WriteProgress progress) override { progress_ = std::move(progress); }
  void set_search_progress(SearchProgress) override {}

  Result<ArchiveSummary> finish() override {
    CFCK_TRY(contents_.finish());
    CFCK_TRY_ASSIGN(const SafetensorsHeader header, header_for(contents_));
    CFCK_TRY(write_archive(contents_, header, sink_, progress_, threads_));
    ArchiveSummary summary;
    for (const SafetensorsTie& tie : header.ties) summary.metadata_names.push_back(tie.name);
    for (const ArchiveTensor& tensor : contents_.tensors()) {
      if (tensor.hidden) continue;
      summary.n_records += 1;
      summary.decoded_bytes += tensor.n_bytes;
    }
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
  model::CollectedArchive contents_;
  WriteProgress progress_;
};

}  // namespace

Result<std::unique_ptr<ArchiveWriter>> create_writer(ByteSink& sink, const EncodeOptions& options) {
  return std::unique_ptr<ArchiveWriter>(
      std::make_unique<SafetensorsArchiveWriter>(sink, options.threads));
}

}  // namespace cfck::interop
