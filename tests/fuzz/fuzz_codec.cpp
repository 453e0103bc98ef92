// Decodes arbitrary bytes as a chunk of any codec of the registry. The payload follows one byte for
// the codec, one for the dtype (from 128 on with the entropy stage rans; 64 more: memory ends
// before the payload instead of behind it), one for the number of dimensions, one for each
// dimension, two for the first value, two for the number of values, one that says whether there is
// a preamble, and then two for its length, and the preamble. Decoded values must also survive
// encoding, as coding_again.hpp describes; all CPU levels do the same.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/fuzz/coding_again.hpp"
#include "tests/fuzz/every_level.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace {

using namespace cfck;
using namespace cfck::codec;
using cfck::test::at_every_level;
using cfck::test::FuzzInput;
using cfck::test::Guard;
using cfck::test::GuardedBytes;
using cfck::test::require;

constexpr std::uint64_t kMaxValues = 5000;

// The codecs have their numbers by their order in the registry.
CodecId take_codec(FuzzInput& input) {
  const auto names = codec_choice_names().subspan(2);
  const std::string_view name = names[input.byte() % names.size()];
  return static_cast<CodecId>(static_cast<unsigned>(*codec_choice_from_name(name)) - 1);
}

// Returns the dtype of that number among those that the codec takes.
DType dtype_of(CodecId codec, unsigned number) {
  std::vector<DType> dtypes(std::begin(kAllDTypes), std::end(kAllDTypes));
  const LossyEncoder* const lossy = find_lossy_encoder(codec);
  if (lossy != nullptr && find_encoder(codec) == nullptr) {
    std::erase_if(dtypes, [&](DType dtype) { return !lossy->supports(dtype); });
  }
  return dtypes[number % dtypes.size()];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input({reinterpret_cast<const std::byte*>(data), size});
  const CodecId codec = take_codec(input);
  const unsigned kind = input.byte();
  ChunkInfo info;
  info.dtype = dtype_of(codec, kind % 64);
  info.entropy = kind < 128 ? EntropyId::kZstd : EntropyId::kRans;
  std::vector<std::uint64_t> shape(input.byte() % 6);
  std::uint64_t n_values = 1;
  for (std::uint64_t& dimension : shape) {
    dimension = 1 + input.byte() % 64;
    n_values *= dimension;
  }
  info.shape = shape;
  info.first_elem = input.two() % n_values;
  info.n_elems = 1 + input.two() % std::min(kMaxValues, n_values - info.first_elem);
  const std::size_t preamble_bytes = input.byte() % 2 != 0 ? input.two() : 0;
  const GuardedBytes preamble(input.take(preamble_bytes));
  info.preamble = preamble.bytes();
  const GuardedBytes payload(input.rest(), kind / 64 % 2 == 0 ? Guard::kBehind : Guard::kBefore);
  static Scratch scratch;
  const Decoder& decoder = *find_decoder(codec);
  const auto body_bytes = decoder.body_bytes(info, payload.bytes());
  std::vector<std::byte> values((info.n_elems * bits_per_element(info.dtype) + 7) / 8);
  const auto decode = [&](std::vector<std::byte>& out) {
    return decoder.decode(info, payload.bytes(), scratch, out);
  };
  if (at_every_level(values, decode)) {
    require(body_bytes && *body_bytes <= payload.size());
    check_coding_again(codec, info, values, scratch);
  }
  return 0;
}
