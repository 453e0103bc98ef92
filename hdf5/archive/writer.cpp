// Writes archives as HDF5 files.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_tree.hpp"
#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "hdf5/archive/file_builder.hpp"
#include "hdf5/archive/include/cfck/hdf5.hpp"
#include "hdf5/archive/listing.hpp"
#include "interop/stream/tensor_stream.hpp"
#include "model/collecting_writer.hpp"
#include "model/stateful_writer.hpp"

namespace cfck::hdf5 {
namespace {

constexpr std::uint64_t kMaxStructureBytes = std::uint64_t{256} << 20;
constexpr std::size_t kMaxStructureValues = std::size_t{16} << 20;

using Tree = JsonTree<Json>;

Error bad_structure(const std::string& why) {
  return corrupt("the attachment hdf5.structure " + why +
                 "; convert the file to safetensors, and that to HDF5");
}

// Returns the structure that the archive keeps of an HDF5 file, if it does.
Result<std::optional<Tree>> kept_structure(const TensorArchive& archive) {
  const auto attachments = archive.attachments();
  const auto kept = std::find_if(
      attachments.begin(), attachments.end(),
      [](const Attachment& attachment) { return attachment.name == kStructureAttachment; });
  if (kept == attachments.end()) return std::optional<Tree>();
  if (kept->decoded_bytes > kMaxStructureBytes) return bad_structure("is longer than 256 MiB");
  CFCK_TRY_ASSIGN(const auto bytes, archive.attachment(kStructureAttachment));
  auto tree = Tree::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                          {kMaxStructureValues, 64});
  if (!tree) return bad_structure(tree.error().message);
  const Json& root = tree->root();
  const bool is_known = root.is_object() && root.contains("version") &&
                        root["version"] == Json(1u) && root.contains("objects") &&
                        root["objects"].is_array();
  if (!is_known) return bad_structure("is of a newer version of cfck");
  return std::optional(std::move(*tree));
}

// All places are known before the first byte is written.
class Hdf5ArchiveWriter final : public model::CollectingWriter {
 public:
  Hdf5ArchiveWriter(ByteSink& sink, unsigned threads) : sink_(sink), threads_(threads) {}

  Result<ArchiveSummary> finish() override {
    CFCK_TRY(contents_.finish());
    CFCK_TRY_ASSIGN(const std::optional<Tree> structure, kept_structure(contents_));
    MemoryFile memory;
    FileBuilder builder(contents_, memory);
    {
      const Library library;
      CFCK_TRY(builder.build(structure ? structure->root()["objects"] : Json()));
    }
    CFCK_TRY(write(memory, builder.placed()));
    return summary(memory, builder.placed());
  }

 private:
  Result<void> write(const MemoryFile& memory, const std::vector<PlacedTensor>& placed) {
    std::vector<std::vector<std::byte>> between;
    std::vector<interop::StreamedTensor> tensors;
    between.reserve(placed.size() + 1);
    std::uint64_t at = 0;
    const auto add_gap = [&](std::uint64_t end) -> Result<void> {
      if (end < at) return internal_error("libhdf5 gave two datasets the same place");
      between.emplace_back(end - at);
      memory.read(at, between.back());
      return {};
    };
    for (const PlacedTensor& next : placed) {
      CFCK_TRY(add_gap(next.offset_bytes));
      at = next.offset_bytes + next.tensor->n_bytes;
      tensors.push_back({next.tensor, between.back()});
    }
    CFCK_TRY(add_gap(std::max(at, memory.end_bytes)));
    return interop::write_tensors(contents_, tensors, between.back(), sink_, progress_, threads_);
  }

  ArchiveSummary summary(const MemoryFile& memory, const std::vector<PlacedTensor>& placed) const {
    ArchiveSummary summary = counted();
    for (const PlacedTensor& stored : placed) summary.stored_bytes += stored.tensor->n_bytes;
    summary.file_bytes = memory.end_bytes;
    if (!placed.empty()) {
      summary.file_bytes =
          std::max(summary.file_bytes, placed.back().offset_bytes + placed.back().tensor->n_bytes);
    }
    return summary;
  }

  ByteSink& sink_;
  unsigned threads_;
};

}  // namespace

Result<std::unique_ptr<ArchiveWriter>> create(ByteSink& sink, const EncodeOptions& options) {
  return run_guarded([&]() -> Result<std::unique_ptr<ArchiveWriter>> {
    return model::with_states(std::make_unique<Hdf5ArchiveWriter>(sink, options.threads), &sink);
  });
}

}  // namespace cfck::hdf5
