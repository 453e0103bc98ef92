// Writes archives as .cfck files.
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cfck/archive_writer.hpp"
#include "format/write/sharing/alias_plan.hpp"
#include "format/write/writer_access.hpp"
#include "model/cfck_archive.hpp"
#include "model/listed_archive.hpp"
#include "model/tensor_bytes.hpp"

namespace cfck::model {
namespace {

// ArchiveWriter::create wraps it in what keeps states and catches exceptions.
class CfckArchiveWriter final : public ArchiveWriter {
 public:
  explicit CfckArchiveWriter(Writer writer) : writer_(std::move(writer)) {}

  Result<void> add(std::string_view name, const TensorSource& tensor) override {
    return writer_.add(name, tensor);
  }
  Result<void> add(std::string_view name, const TensorView& tensor) override {
    return writer_.add(name, tensor);
  }
  Result<bool> tie(std::string_view name, std::string_view base) override {
    return writer_.tie(name, base);
  }
  Result<void> set_metadata(std::string_view key, std::string_view value) override {
    return writer_.set_metadata(key, value);
  }
  Result<void> attach(std::string_view name, ByteView bytes) override {
    return writer_.attach(name, bytes);
  }

  Result<void> add_archive(const TensorArchive& archive) override {
    CFCK_TRY(check_limits(archive));
    for (const auto& [key, value] : archive.metadata()) {
      CFCK_TRY(writer_.set_metadata(key, value));
    }
    for (const Attachment& attachment : archive.attachments()) {
      CFCK_TRY_ASSIGN(const auto bytes, archive.attachment(attachment.name));
      CFCK_TRY(writer_.attach(attachment.name, bytes));
    }
    const auto views = views_of(archive);
    for (const ArchiveTensor& tensor : archive.tensors()) {
      if (tensor.hidden || is_tie(archive, tensor)) continue;
      const auto found = views.find(tensor.index);
      CFCK_TRY(add_tensor(archive, tensor,
                          found == views.end() ? std::span<const BaseView>() : found->second));
    }
    for (const ArchiveTensor& tensor : archive.tensors()) {
      if (!tensor.hidden && is_tie(archive, tensor)) CFCK_TRY(add_tie(archive, tensor));
    }
    return {};
  }

  void set_progress(WriteProgress progress) override { writer_.set_progress(std::move(progress)); }
  void set_search_progress(SearchProgress progress) override {
    writer_.set_search_progress(std::move(progress));
  }

  Result<ArchiveSummary> finish() override {
    CFCK_TRY_ASSIGN(WriteSummary written, writer_.finish());
    ArchiveSummary summary;
    static_cast<WriteSummary&>(summary) = std::move(written);
    return summary;
  }

 private:
  Result<Writer*> encoder() override { return &writer_; }

  // True for a view of a tensor with a name. Memory without a name cannot be added itself, so views
  // of it are stored on their own.
  static bool is_tie(const TensorArchive& archive, const ArchiveTensor& tensor) {
    return tensor.sharing == Sharing::kMemory && !archive.tensors()[tensor.base].hidden;
  }

  // A view may claim far more than its file has. Bytes that are stored raw are in the file. In
  // other formats any tensor may; views of them are ties, which are not decoded.
  static Result<void> check_limits(const TensorArchive& archive) {
    model::DecodedTotals totals(archive);
    for (const ArchiveTensor& tensor : archive.tensors()) {
      if (tensor.offset_bytes) continue;
      CFCK_TRY(archive.check_decoded_bytes(tensor, tensor.n_bytes));
      const bool is_claimed = tensor.record == nullptr && tensor.sharing == Sharing::kNone;
      if (is_claimed) CFCK_TRY(totals.add(tensor));
    }
    return {};
  }

  // Returns the views that must be ties of their base, by its index. Those that only metadata name
  // need not.
  static std::map<std::size_t, std::vector<BaseView>> views_of(const TensorArchive& archive) {
    std::map<std::size_t, std::vector<BaseView>> views;
    for (const ArchiveTensor& tensor : archive.tensors()) {
      if (tensor.hidden || tensor.named_by_metadata || !is_tie(archive, tensor)) continue;
      const bool is_whole = tensor.n_elems == archive.tensors()[tensor.base].n_elems &&
                            format::is_contiguous(tensor.shape, tensor.strides);
      views[tensor.base].push_back({tensor.name, &tensor.shape, is_whole});
    }
    return views;
  }

  Result<void> add_tensor(const TensorArchive& archive, const ArchiveTensor& tensor,
                          std::span<const BaseView> views) {
    const ByteSource* const file = archive.files()[tensor.file].source;
    if (tensor.offset_bytes && file != nullptr) {
      const TensorSource source{tensor.dtype, tensor.shape, file, *tensor.offset_bytes};
      return WriterAccess::add_base(writer_, tensor.name, source, views);
    }
    decoded_.push_back(std::make_unique<TensorBytes>(archive, tensor));
    const TensorSource source{tensor.dtype, tensor.shape, decoded_.back().get(), 0};
    return WriterAccess::add_base(writer_, tensor.name, source, views);
  }

  Result<void> add_tie(const TensorArchive& archive, const ArchiveTensor& tensor) {
    const std::string& base = archive.tensors()[tensor.base].name;
    if (!tensor.named_by_metadata) {
      return writer_.add_alias(tensor.name, base, tensor.element_offset, tensor.shape,
                               tensor.strides);
    }
    // Where a tie is not possible, the metadata still records it.
    auto tied = writer_.tie(tensor.name, base);
    return tied ? Result<void>() : std::move(tied).error();
  }

  std::vector<std::unique_ptr<TensorBytes>> decoded_;
  Writer writer_;
};

}  // namespace

Result<std::unique_ptr<ArchiveWriter>> create_cfck(ByteSink& sink, const EncodeOptions& options) {
  CFCK_TRY_ASSIGN(Writer writer, Writer::create(sink, options));
  return std::unique_ptr<ArchiveWriter>(std::make_unique<CfckArchiveWriter>(std::move(writer)));
}

}  // namespace cfck::model
