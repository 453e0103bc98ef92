// .keras archives: zip files with the weights as an HDF5 file, and the model as JSON.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "interop/keras/format.hpp"
#include "interop/keras/writer.hpp"
#include "interop/zip/directory.hpp"
#include "interop/zip/inflated_member.hpp"
#include "interop/zip/source_part.hpp"
#include "interop/zip/verify.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck::model {
namespace {

using interop::ZipMember;

// Of all members but the weights together.
constexpr std::uint64_t kMaxOtherBytes = std::uint64_t{256} << 20;

// The archive of the weights, with the other members as attachments.
class KerasArchive final : public TensorArchive {
 public:
  KerasArchive(std::unique_ptr<ByteSource> source, const ArchiveOptions& options)
      : source_(std::move(source)), options_(options) {}

  Result<void> list() {
    CFCK_TRY_ASSIGN(members_, interop::read_zip_directory(*source_));
    const ZipMember* weights = nullptr;
    for (const ZipMember& member : members_) {
      if (member.name == interop::kKerasWeights) {
        weights = &member;
      } else if (!member.name.ends_with('/')) {
        CFCK_TRY(options_.only_tensors ? leave_out(member) : keep(member));
      }
    }
    if (weights == nullptr) {
      return unsupported(
          "the archive of Keras has no member model.weights.h5; save the model again with Keras 3");
    }
    CFCK_TRY_ASSIGN(weights_, hdf5_format().open(source_of(*weights), options_));
    notes_.insert(notes_.end(), weights_->notes().begin(), weights_->notes().end());
    for (const Attachment& attachment : weights_->attachments()) {
      attachments_.push_back(attachment);
    }
    tensors_.assign(weights_->tensors().begin(), weights_->tensors().end());
    for (ArchiveTensor& tensor : tensors_) {
      // Places are those in the zip file, where it has the bytes as they are.
      if (!weights->stored) tensor.offset_bytes.reset();
      if (tensor.offset_bytes) *tensor.offset_bytes += weights->offset_bytes;
    }
    const ArchiveFile& inner = weights_->files().front();
    files_.push_back({source_->name(), keras_format().name, source_->size(),
                      inner.max_decoded_bytes, nullptr, source_.get()});
    return {};
  }

  std::span<const ArchiveFile> files() const override { return files_; }
  std::span<const ArchiveTensor> tensors() const override { return tensors_; }
  const ArchiveTensor* find(std::string_view name) const override {
    const ArchiveTensor* const found = weights_->find(name);
    return found == nullptr ? nullptr : &tensors_[found->index];
  }
  const Metadata& metadata() const override { return weights_->metadata(); }
  std::span<const Attachment> attachments() const override { return attachments_; }
  Result<std::vector<std::byte>> attachment(std::string_view name) const override {
    const auto found = others_.find(name);
    if (found == others_.end()) return weights_->attachment(name);
    return run_guarded([&]() -> Result<std::vector<std::byte>> { return found->second; });
  }
  std::span<const std::string> notes() const override { return notes_; }
  Result<void> check_decoded_bytes(const ArchiveTensor& tensor,
                                   std::uint64_t n_bytes) const override {
    return weights_->check_decoded_bytes(tensor, n_bytes);
  }
  Result<void> read_many(std::span<const ArchiveRead> reads,
                         const ReadProgress& progress) const override {
    return weights_->read_many(reads, progress);
  }
  Result<void> read_elements(const ArchiveTensor& tensor, std::uint64_t first_elem,
                             std::uint64_t n_elems, MutableBytes out) const override {
    return weights_->read_elements(tensor, first_elem, n_elems, out);
  }
  Result<void> read_slice(const ArchiveTensor& tensor, std::span<const std::uint64_t> starts,
                          std::span<const std::uint64_t> stops, MutableBytes out) const override {
    return weights_->read_slice(tensor, starts, stops, out);
  }
  Result<VerifyReport> verify(VerifyLevel, const ReadProgress& progress) const override {
    return run_guarded([&] { return interop::verify_zip(*source_, members_, progress); });
  }

 private:
  std::unique_ptr<ByteSource> source_of(const ZipMember& member) {
    if (member.stored) {
      return std::make_unique<interop::SourcePart>(*source_, member.offset_bytes, member.n_bytes);
    }
    return std::make_unique<interop::InflatedMember>(*source_, member, cache_);
  }

  Result<void> leave_out(const ZipMember& member) {
    notes_.push_back("'" + escaped(member.name) + "' was left out");
    return {};
  }

  Result<void> keep(const ZipMember& member) {
    other_bytes_ += member.n_bytes;
    if (member.n_bytes > kMaxOtherBytes || other_bytes_ > kMaxOtherBytes) {
      return limit_exceeded("the members besides the weights have more than 256 MiB")
          .in_record(member.name);
    }
    std::vector<std::byte> bytes(member.n_bytes);
    CFCK_TRY(source_of(member)->read_at(0, bytes));
    std::string name = std::string(interop::kKerasPrefix) + member.name;
    attachments_.push_back({name, bytes.size(), bytes.size()});
    others_.emplace(std::move(name), std::move(bytes));
    return {};
  }

  // What is referred to comes before what refers to it.
  std::unique_ptr<ByteSource> source_;
  ArchiveOptions options_;
  interop::BlockCache cache_;
  std::vector<ZipMember> members_;
  std::map<std::string, std::vector<std::byte>, std::less<>> others_;  // by attachment
  std::uint64_t other_bytes_ = 0;
  std::vector<Attachment> attachments_;
  std::vector<ArchiveFile> files_;
  std::vector<std::string> notes_;
  std::unique_ptr<TensorArchive> weights_;
  // Those of weights_, which takes copies for its own.
  std::vector<ArchiveTensor> tensors_;
};

Result<std::unique_ptr<TensorArchive>> open_keras(std::unique_ptr<ByteSource> source,
                                                  const ArchiveOptions& options) {
  if (interop::is_zip_of_numpy(*source)) return npz_format().open(std::move(source), options);
  auto archive = std::make_unique<KerasArchive>(std::move(source), options);
  CFCK_TRY(archive->list());
  return std::unique_ptr<TensorArchive>(std::move(archive));
}

// Keras writes its metadata first.
bool begins_keras(std::string_view head) {
  constexpr std::size_t kLocalBytes = 30;
  if (!head.starts_with("PK\x03\x04") || head.size() < kLocalBytes) return false;
  const auto name_bytes = load<std::uint16_t>(reinterpret_cast<const std::byte*>(head.data()) + 26);
  const std::string_view name = head.substr(kLocalBytes, name_bytes);
  return name == interop::kKerasMetadata || name == interop::kKerasConfig ||
         name == interop::kKerasWeights;
}

}  // namespace

const ArchiveFormat& keras_format() {
  static constexpr std::string_view kKeptAttachments[] = {"hdf5.structure", interop::kKerasPrefix};
  static const ArchiveFormat kFormat = {
      "keras", ".keras", false, &begins_keras,   &open_keras, &interop::create_keras_writer,
      nullptr, {},       false, kKeptAttachments};
  return kFormat;
}

}  // namespace cfck::model
