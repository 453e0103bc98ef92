// Opens arbitrary bytes as a file, with the tensors of fixed_base.hpp for a base, reads everything
// in it, and applies it to these tensors as a patch. Version and hashes are corrected first, so
// that what lies behind them is reached.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cfck/cfck.hpp"
#include "tests/fuzz/fixed_base.hpp"
#include "tests/fuzz/patch_again.hpp"
#include "tests/fuzz/sealed_file.hpp"

namespace {

using namespace cfck;

constexpr std::uint64_t kMaxTensorBytes = 1 << 20;

void read_record(const Reader& reader, const Record& record) {
  if (record.decoded_bytes > kMaxTensorBytes) {
    return;
  }
  std::vector<std::byte> whole(record.decoded_bytes);
  const bool readable = reader.read(record, whole).has_value();
  const unsigned bits = bits_per_element(record.dtype);
  if (!readable || record.n_elems < 2 || bits < 8) {
    return;
  }
  // A part of the record must equal that part of the whole.
  const std::uint64_t first = record.n_elems / 3;
  const std::uint64_t count = record.n_elems / 2;
  std::vector<std::byte> part(count * bits / 8);
  const Result<void> read = reader.read_elements(record, first, count, part);
  if (!read || std::memcmp(part.data(), whole.data() + first * bits / 8, part.size()) != 0) {
    std::abort();
  }
  (void)reader.map(record);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* start = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(start, start + size);
  test::seal(bytes);
  const MemorySource source(bytes);
  DecodeOptions options;
  options.threads = 1;
  options.verify_chunks = false;
  options.base = test::fixed_base();
  options.limits.max_decoded_bytes = 4 * kMaxTensorBytes;
  options.limits.max_attachment_bytes = kMaxTensorBytes;
  const Result<Reader> reader = Reader::open(source, options);
  if (!reader) {
    return 0;
  }
  for (const Record& record : reader->records()) {
    read_record(*reader, record);
  }
  for (const Attachment& attachment : reader->attachments()) {
    (void)reader->attachment(attachment.name);
  }
  if (!reader->verify(VerifyLevel::kHashes)) {
    std::abort();
  }
  (void)test::apply_as_patch(source, *reader, options, kMaxTensorBytes);
  return 0;
}
