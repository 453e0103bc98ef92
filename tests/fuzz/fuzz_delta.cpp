// Decodes arbitrary bytes as a chunk of codec delta. The payload follows one byte for the dtype,
// two for the number of values, one that says how many bytes of the base come next, in units of
// four (the base repeats them), and these bytes. Decoded values must also survive encoding; all CPU
// levels do the same.
#include <cstdint>
#include <vector>

#include "codec/change_log.hpp"
#include "codec/delta/delta.hpp"
#include "tests/codec/test_values.hpp"
#include "tests/fuzz/every_level.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace {

using namespace cfck;
using namespace cfck::codec;
using cfck::test::at_every_level;
using cfck::test::FuzzInput;
using cfck::test::GuardedBytes;
using cfck::test::require;

constexpr std::uint64_t kMaxValues = 5000;

std::vector<std::byte> repeated(ByteView pattern, std::size_t n_bytes) {
  std::vector<std::byte> bytes(n_bytes);
  for (std::size_t i = 0; i < n_bytes && !pattern.empty(); ++i) {
    bytes[i] = pattern[i % pattern.size()];
  }
  return bytes;
}

void check_again(const ChunkInfo& info, const std::vector<std::byte>& values, Scratch& scratch) {
  std::vector<std::byte> payload;
  const auto encode = [&](std::vector<std::byte>& out) -> Result<void> {
    EncodedChunk encoded;
    CFCK_TRY(delta_encoder().encode(info, values, scratch, encoded));
    out = std::move(encoded.payload);
    return {};
  };
  require(at_every_level(payload, encode).has_value());
  require(payload.size() <= values.size() + delta_encoder().max_overhead_bytes());
  std::vector<std::byte> again(info.base.begin(), info.base.end());
  ChunkInfo in_place = info;
  in_place.base = again;
  require(delta_decoder().decode(in_place, payload, scratch, again).has_value());
  require(again == values);
}

// Decodes where the base lies, and puts that back.
void check_undo(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                const std::vector<std::byte>* expected) {
  const std::vector<std::byte> base(info.base.begin(), info.base.end());
  std::vector<std::byte> values = base;
  ChangeLog changes;
  ChunkInfo in_place = info;
  in_place.base = values;
  in_place.changes = &changes;
  const bool is_decoded = delta_decoder().decode(in_place, payload, scratch, values).has_value();
  require(is_decoded == (expected != nullptr));
  require(!is_decoded || values == *expected);
  changes.undo(values);
  require(values == base);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input({reinterpret_cast<const std::byte*>(data), size});
  ChunkInfo info;
  info.dtype = kAllDTypes[input.byte() % std::size(kAllDTypes)];
  info.entropy = EntropyId::kRans;
  info.n_elems = 1 + input.two() % kMaxValues;
  const std::size_t n_bytes = (info.n_elems * bits_per_element(info.dtype) + 7) / 8;
  const std::size_t n_pattern = 4 * std::size_t{input.byte()};
  const std::vector<std::byte> base = repeated(input.take(n_pattern), n_bytes);
  const GuardedBytes guarded_base(base);
  info.base = guarded_base.bytes();
  const GuardedBytes payload(input.rest());
  static Scratch scratch;
  const auto body_bytes = delta_decoder().body_bytes(info, payload.bytes());
  std::vector<std::byte> values(n_bytes);
  const auto decode = [&](std::vector<std::byte>& out) {
    return delta_decoder().decode(info, payload.bytes(), scratch, out);
  };
  const bool is_decoded = at_every_level(values, decode).has_value();
  check_undo(info, payload.bytes(), scratch, is_decoded ? &values : nullptr);
  if (is_decoded) {
    require(body_bytes && *body_bytes == payload.size());
    check_again(info, values, scratch);
  }
  return 0;
}
