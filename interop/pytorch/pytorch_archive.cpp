// Files of torch.save as archives.
#include <memory>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/run_guarded.hpp"
#include "cfck/checkpoint.hpp"
#include "interop/pytorch/pytorch_file.hpp"
#include "interop/stored/stored_archive.hpp"
#include "interop/zip/zip_directory.hpp"
#include "model/archive_format.hpp"

namespace cfck::model {
namespace {

class PytorchArchive final : public interop::StoredArchive {
 public:
  PytorchArchive(std::unique_ptr<ByteSource> source, const DecodeOptions& options)
      : StoredArchive(std::move(source), pytorch_format().name, options) {}

  Result<void> list() {
    CFCK_TRY_ASSIGN(interop::PytorchFile file, interop::read_pytorch_file(source()));
    std::vector<std::size_t> storages;
    for (interop::PytorchTensor& tensor : file.tensors) {
      storages.push_back(tensor.storage);
      CFCK_TRY(add({std::move(tensor.name), tensor.dtype, std::move(tensor.shape),
                    std::move(tensor.strides), nullptr, tensor.offset_bytes, false}));
    }
    tie_tensors(storages);
    members_ = std::move(file.members);
    skeleton_ = std::move(file.skeleton);
    attachments_.push_back(
        {std::string(kCheckpointAttachment), skeleton_.size(), skeleton_.size()});
    return finish_list();
  }

  Result<std::vector<std::byte>> attachment(std::string_view name) const override {
    return run_guarded([&]() -> Result<std::vector<std::byte>> {
      if (name != kCheckpointAttachment) return ListedArchive::attachment(name);
      const auto bytes = std::as_bytes(std::span(skeleton_));
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    });
  }

 private:
  std::string skeleton_;
};

Result<std::unique_ptr<TensorArchive>> open_pytorch(std::unique_ptr<ByteSource> source,
                                                    const ArchiveOptions& options) {
  if (interop::is_zip_of_numpy(*source)) return npz_format().open(std::move(source), options);
  auto archive = std::make_unique<PytorchArchive>(std::move(source), options.decode);
  CFCK_TRY(archive->list());
  return std::unique_ptr<TensorArchive>(std::move(archive));
}

// torch.save writes the pickle first, torch.jit.save does not. Files of numpy, which are zip files
// too, have members of other names.
bool is_zip_without_arrays(std::string_view head) {
  constexpr std::size_t kLocalBytes = 30;
  if (!head.starts_with("PK\x03\x04")) return false;
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
                                        &is_zip_without_arrays,
                                        &open_pytorch,
                                        nullptr,
                                        nullptr,
                                        kOtherSuffixes,
                                        /*restores_bytes=*/false};
  return kFormat;
}

}  // namespace cfck::model
