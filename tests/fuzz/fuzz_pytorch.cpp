// Files of torch.save: any bytes are either refused, or an archive whose tensors can be read.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "cfck/archive.hpp"
#include "cfck/checkpoint.hpp"

namespace {

// A view may repeat elements; larger ones are not read, to keep the runs short.
constexpr std::uint64_t kMaxReadBytes = 1 << 20;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void check(const std::vector<std::byte>& bytes, bool only_tensors) {
  cfck::ArchiveOptions options;
  options.decode.threads = 1;
  options.only_tensors = only_tensors;
  const auto archive = cfck::TensorArchive::open_as(
      "pytorch", std::make_unique<cfck::OwnedMemorySource>(bytes), options);
  if (!archive) {
    require(!archive.error().message.empty(), "an error without a message");
    return;
  }
  for (const cfck::ArchiveTensor& tensor : (*archive)->tensors()) {
    if (tensor.n_bytes > kMaxReadBytes) continue;
    const auto values = (*archive)->read(tensor);
    // Members that are compressed are found to be damaged when they are read.
    require(values || values.error().code == cfck::ErrorCode::kCorrupt,
            "a tensor that was listed cannot be read");
  }
  if (only_tensors) return;
  const auto skeleton = (*archive)->attachment(cfck::kCheckpointAttachment);
  require(skeleton.has_value(), "no skeleton");
  const auto checkpoint =
      cfck::parse_checkpoint({reinterpret_cast<const char*>(skeleton->data()), skeleton->size()});
  require(checkpoint.has_value(), "a skeleton that cannot be read");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t n_bytes) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> file(bytes, bytes + n_bytes);
  for (const bool only_tensors : {false, true}) check(file, only_tensors);
  return 0;
}
