// HDF5 files: any bytes are refused, or read, and written to a file with the same tensors.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "hdf5/archive/include/cfck/hdf5.hpp"

namespace {

using namespace cfck;

constexpr std::uint64_t kMaxTensorBytes = 1 << 20;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

ArchiveOptions options() {
  ArchiveOptions made;
  made.decode.threads = 1;
  made.decode.limits.max_decoded_bytes = kMaxTensorBytes;
  return made;
}

std::unique_ptr<TensorArchive> opened(ByteView bytes) {
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  auto archive = hdf5::open(std::make_unique<OwnedMemorySource>(std::move(copy)), options());
  require(archive || !archive.error().message.empty(), "an error without a message");
  return archive ? std::move(*archive) : nullptr;
}

void compare(const TensorArchive& before, const TensorArchive& after) {
  for (const ArchiveTensor& tensor : before.tensors()) {
    const ArchiveTensor* const again = after.find(tensor.name);
    require(again != nullptr && again->dtype == tensor.dtype && again->shape == tensor.shape,
            "another tensor again");
    const auto one = before.read(tensor);
    const auto other = after.read(*again);
    if (!one) continue;
    require(other.has_value() && std::equal(one->bytes().begin(), one->bytes().end(),
                                            other->bytes().begin(), other->bytes().end()),
            "other values again");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t n_bytes) {
  const auto archive = opened({reinterpret_cast<const std::byte*>(data), n_bytes});
  if (archive == nullptr) return 0;
  std::uint64_t total_bytes = 0;
  for (const ArchiveTensor& tensor : archive->tensors()) {
    const auto read = archive->read(tensor);
    require(read || !read.error().message.empty(), "an error without a message");
    if (!read) return 0;
    total_bytes += tensor.n_bytes;
    if (total_bytes > kMaxTensorBytes) return 0;
  }
  MemorySink sink;
  EncodeOptions encode;
  encode.threads = 1;
  auto writer = hdf5::create(sink, encode);
  // Attributes that cannot be kept, types that stand alone, names with two meanings.
  if (!(*writer)->add_archive(*archive) || !(*writer)->finish()) return 0;
  const auto again = opened(sink.bytes());
  require(again != nullptr, "a file that cannot be read again");
  compare(*archive, *again);
  return 0;
}
