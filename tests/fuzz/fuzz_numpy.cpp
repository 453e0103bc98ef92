// Files of numpy: any bytes are either refused, or an archive whose tensors can be read, or are
// found to be damaged when they are decompressed.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "cfck/archive.hpp"

namespace {

constexpr std::uint64_t kMaxReadBytes = 1 << 20;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t n_bytes) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  cfck::ArchiveOptions options;
  options.decode.threads = 1;
  const char* const format = n_bytes > 0 && data[0] == 'P' ? "npz" : "npy";
  const auto archive = cfck::TensorArchive::open_as(
      format, std::make_unique<cfck::OwnedMemorySource>(std::vector(bytes, bytes + n_bytes)),
      options);
  if (!archive) {
    require(!archive.error().message.empty(), "an error without a message");
    return 0;
  }
  for (const cfck::ArchiveTensor& tensor : (*archive)->tensors()) {
    if (tensor.n_bytes > kMaxReadBytes) continue;
    const auto values = (*archive)->read(tensor);
    require(values.has_value() || values.error().code == cfck::ErrorCode::kCorrupt,
            "a tensor that was listed cannot be read");
    if (!values || tensor.n_elems == 0) continue;
    // The last element alone is the last of all.
    const std::uint64_t elem_bytes = tensor.n_bytes / tensor.n_elems;
    std::vector<std::byte> last(elem_bytes);
    require((*archive)->read_elements(tensor, tensor.n_elems - 1, 1, last).has_value(),
            "an element of a tensor that was read cannot be read");
    const cfck::ByteView all = values->bytes();
    require(
        std::equal(last.begin(), last.end(), all.end() - static_cast<std::ptrdiff_t>(elem_bytes)),
        "an element differs");
  }
  return 0;
}
