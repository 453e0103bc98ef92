#include "hdf5/filter/values.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "base/bytes.hpp"

namespace cfck::hdf5 {
namespace {

constexpr std::size_t kMaxDimensions = 33;  // 32 of a dataset, and one of its elements
constexpr unsigned kBigEndianBit = 1u << 8;
constexpr unsigned kFirstFilterBit = 1u << 9;
constexpr unsigned kWrittenOnceBit = 1u << 31;  // of word 4; plug-ins that lack it still read

std::uint64_t word_pair(std::span<const unsigned> words, std::size_t first) {
  return words[first] | std::uint64_t{words[first + 1]} << 32;
}

double number_at(std::span<const unsigned> words, std::size_t first) {
  return std::bit_cast<double>(word_pair(words, first));
}

Error bad_word(std::size_t number, const std::string& problem) {
  return invalid_argument("value " + std::to_string(number) + " of the filter's client data " +
                          problem);
}

Result<void> parse_coding(unsigned word, FilterRequest& request) {
  const auto byte_of = [&](unsigned shift) { return static_cast<std::uint8_t>(word >> shift); };
  const std::uint8_t codec = byte_of(0);
  const std::uint8_t level = byte_of(8);
  const std::uint8_t entropy = byte_of(16);
  if (codec >= codec_choice_names().size()) {
    return bad_word(4, "names codec " + std::to_string(codec) + ", which this version lacks");
  }
  if (level > static_cast<std::uint8_t>(EncodeLevel::kArchive) + 1) {
    return bad_word(4, "names level " + std::to_string(level) + ", which this version lacks");
  }
  if (entropy > static_cast<std::uint8_t>(EntropyId::kRans)) {
    return bad_word(
        4, "names entropy stage " + std::to_string(entropy) + ", which this version lacks");
  }
  request.options.codec = static_cast<CodecChoice>(codec);
  if (request.options.codec == CodecChoice::kRows) {
    return bad_word(4, "names codec rows, which is for files: a chunk of a dataset has no rows");
  }
  if (level != 0) {
    request.level = static_cast<EncodeLevel>(level - 1);
  }
  if (entropy != 0) {
    request.entropy = static_cast<EntropyId>(entropy);
  }
  request.is_written_once = (word & kWrittenOnceBit) != 0;
  const std::uint8_t trellis_states = byte_of(24) & 0x7f;
  if (trellis_states != 0) {
    request.options.trellis_states = trellis_states;
  }
  return {};
}

std::vector<std::uint8_t> sides_of(std::uint64_t packed) {
  std::vector<std::uint8_t> sides;
  for (; (packed & 0xff) != 0; packed >>= 8) {
    sides.push_back(static_cast<std::uint8_t>(packed));
  }
  return sides;
}

}  // namespace

std::uint64_t ChunkValues::n_bytes() const noexcept {
  std::uint64_t total = bits_per_element(dtype) / 8;
  for (const std::uint64_t size : shape) {
    if (!checked_mul(total, size, total)) {
      return 0;
    }
  }
  return total;
}

Result<FilterRequest> parse_request(std::span<const unsigned> given) {
  FilterRequest request;
  if (given.empty()) {
    return request;
  }
  if (given[0] != kValuesVersion) {
    return unsupported("the dataset asks for version " + std::to_string(given[0]) +
                       " of the cfck filter, and this plug-in has version " +
                       std::to_string(kValuesVersion) + "; install a cfck that has it");
  }
  std::array<unsigned, kUserValues> words{};
  std::copy_n(given.begin(), std::min(given.size(), words.size()), words.begin());
  if (words[1] > static_cast<unsigned>(Mode::kBitsPerWeight)) {
    return bad_word(1, "is mode " + std::to_string(words[1]) +
                           "; there are 0 (lossless), 1 (max_abs_error), 2 (max_rel_error), 3 "
                           "(nmse) and 4 (bits_per_weight)");
  }
  request.mode = static_cast<Mode>(words[1]);
  request.value = number_at(words, 2);
  request.max_abs_error = number_at(words, 7);
  const bool is_positive = std::isfinite(request.value) && request.value > 0;
  if (request.is_lossy() ? !is_positive : request.value != 0) {
    return bad_word(2, request.is_lossy()
                           ? "and the one after it are no positive, finite number (an F64, its low "
                             "half first)"
                           : "must be 0 for mode 0 (lossless)");
  }
  const bool has_target = request.mode == Mode::kNmse || request.mode == Mode::kBitsPerWeight;
  if (!(std::isfinite(request.max_abs_error) && request.max_abs_error >= 0) ||
      (request.max_abs_error != 0 && !has_target)) {
    return bad_word(7,
                    "and the one after it are a maximum error beside a target (modes 3 and 4), "
                    "or 0");
  }
  CFCK_TRY(parse_coding(words[4], request));
  request.options.block = sides_of(word_pair(words, 5));
  return request;
}

Result<ChunkValues> parse_chunk_values(std::span<const unsigned> words) {
  const auto refuse = [](const char* problem) {
    return corrupt(std::string("the description of the dataset in the filter's client data ") +
                   problem + "; the file is damaged, download it again");
  };
  if (words.size() < kUserValues + kLocalValues) {
    return refuse("is missing");
  }
  ChunkValues values;
  values.dtype = static_cast<DType>(words[kUserValues] & 0xff);
  values.is_big_endian = (words[kUserValues] & kBigEndianBit) != 0;
  values.is_first_filter = (words[kUserValues] & kFirstFilterBit) != 0;
  values.fill_bits = word_pair(words, kUserValues + 1);
  const std::size_t n_dimensions = words[kUserValues + 3];
  const auto sizes = words.subspan(kUserValues + kLocalValues);
  if (bits_per_element(values.dtype) % 8 != 0 || bits_per_element(values.dtype) == 0) {
    return refuse("names an unknown type");
  }
  if (n_dimensions > kMaxDimensions || sizes.size() != n_dimensions) {
    return refuse("has a wrong number of dimensions");
  }
  values.shape.assign(sizes.begin(), sizes.end());
  if (values.n_bytes() == 0) {
    return refuse("has an empty or a too large chunk");
  }
  return values;
}

std::vector<unsigned> complete_words(std::span<const unsigned> user, const ChunkValues& values) {
  std::vector<unsigned> words(user.begin(), user.begin() + std::min(user.size(), kUserValues));
  words.resize(kUserValues, 0);
  words[0] = kValuesVersion;
  words.push_back(static_cast<unsigned>(values.dtype) | (values.is_big_endian ? kBigEndianBit : 0) |
                  (values.is_first_filter ? kFirstFilterBit : 0));
  words.push_back(static_cast<unsigned>(values.fill_bits));
  words.push_back(static_cast<unsigned>(values.fill_bits >> 32));
  words.push_back(static_cast<unsigned>(values.shape.size()));
  for (const std::uint64_t size : values.shape) {
    words.push_back(static_cast<unsigned>(size));
  }
  return words;
}

}  // namespace cfck::hdf5
