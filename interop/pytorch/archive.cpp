// Files of torch.save as archives.
#include "interop/stored/archive.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/run_guarded.hpp"
#include "cfck/checkpoint.hpp"
#include "interop/pytorch/file.hpp"
#include "interop/zip/directory.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck::model {
namespace {

class PytorchArchive final : public interop::StoredArchive {
 public:
  PytorchArchive(std::unique_ptr<ByteSource> source, const ArchiveOptions& options)
      : StoredArchive(std::move(source), pytorch_format().name, options.decode),
        only_tensors_(options.only_tensors) {}

  Result<void> list() {
    CFCK_TRY_ASSIGN(const std::string head, head_of(source()));
    const auto read = interop::begins_legacy_file(head) ? &interop::read_legacy_file
                                                        : &interop::read_pytorch_file;
    CFCK_TRY_ASSIGN(file_, read(source(), only_tensors_));
    std::vector<std::size_t> storages;
    for (interop::PytorchTensor& tensor : file_.tensors) {
      storages.push_back(tensor.storage);
      CFCK_TRY(add({std::move(tensor.name), tensor.dtype, std::move(tensor.shape),
                    std::move(tensor.strides), tensor.source, tensor.offset_bytes, false,
                    tensor.negated, tensor.conjugated}));
    }
    file_.tensors.clear();
    tie_tensors(storages);
    members_ = std::move(file_.members);
    metadata_ = std::move(file_.metadata);
    if (!only_tensors_) {
      attachments_.push_back(
          {std::string(kCheckpointAttachment), file_.skeleton.size(), file_.skeleton.size()});
    }
    return finish_list();
  }

  std::span<const std::string> notes() const override { return file_.notes; }

  Result<std::vector<std::byte>> attachment(std::string_view name) const override {
    return run_guarded([&]() -> Result<std::vector<std::byte>> {
      if (name != kCheckpointAttachment || only_tensors_) return ListedArchive::attachment(name);
      const auto bytes = std::as_bytes(std::span(file_.skeleton));
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    });
  }

 private:
  bool only_tensors_;
  interop::PytorchFile file_;
};

Result<std::unique_ptr<TensorArchive>> open_pytorch(std::unique_ptr<ByteSource> source,
                                                    const ArchiveOptions& options) {
  if (interop::is_zip_of_numpy(*source)) return npz_format().open(std::move(source), options);
  auto archive = std::make_unique<PytorchArchive>(std::move(source), options);
  CFCK_TRY(archive->list());
  return std::unique_ptr<TensorArchive>(std::move(archive));
}

// torch.save writes the pickle first, torch.jit.save does not. Files of numpy, which are zip files
// too, have members of other names.
bool begins_pytorch(std::string_view head) {
  constexpr std::size_t kLocalBytes = 30;
  if (!head.starts_with("PK\x03\x04")) return interop::begins_legacy_file(head);
  if (head.size() < kLocalBytes) return true;
  const auto name_bytes = load<std::uint16_t>(reinterpret_cast<const std::byte*>(head.data()) + 26);
  return !head.substr(kLocalBytes, name_bytes).ends_with(".npy");
}

}  // namespace

const ArchiveFormat& pytorch_format() {
  static constexpr std::string_view kOtherSuffixes[] = {".pth", ".bin", ".ckpt"};
  static const ArchiveFormat kFormat = {"pytorch",
                                        ".pt",
                                        false,
                                        &begins_pytorch,
                                        &open_pytorch,
                                        nullptr,
                                        nullptr,
                                        kOtherSuffixes,
                                        /*restores_bytes=*/false};
  return kFormat;
}

}  // namespace cfck::model
