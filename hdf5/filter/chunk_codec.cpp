#include "hdf5/filter/chunk_codec.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"
#include "codec/entropy/zstd/byte_frame.hpp"
#include "encode/choose_candidate.hpp"
#include "encode/rate/rate_control.hpp"
#include "encode/rules/encode_rules.hpp"
#include "hdf5/filter/fill_values.hpp"

namespace cfck::hdf5 {
namespace {

constexpr char kMagic[4] = {'C', 'F', 'H', '1'};
constexpr std::size_t kHashAt = 16;
constexpr std::size_t kHeaderBytes = 24;
constexpr std::size_t kMaskAt = kHeaderBytes + 4;
constexpr std::uint8_t kReversed = 1;
constexpr std::uint8_t kHidesFill = 2;
// The range of max_abs_error (cfck/options.hpp).
constexpr double kSmallestBound = 0x1p-1000;
constexpr double kLargestBound = 0x1p1000;
constexpr unsigned kSmallestRate = 128;  // bytes of a chunk: headers take half of that

constexpr encode::FrameCosts kCosts = {
    .header_bytes = kHeaderBytes,
    .max_packed_payload_bytes = 0,
    .max_raw_frame_bytes = codec::kMaxChunkBytes,
};

struct Header {
  CodecId codec = CodecId::kRaw;
  EntropyId entropy = EntropyId::kNone;
  DType dtype = DType::kU8;
  std::uint8_t flags = 0;
  std::uint64_t n_bytes = 0;
  std::uint32_t mask_bytes = 0;

  bool hides_fill() const { return (flags & kHidesFill) != 0; }
  // With the mask.
  std::uint64_t size() const { return kHeaderBytes + (hides_fill() ? 4u + mask_bytes : 0u); }
};

Error damaged(const std::string& what, std::uint64_t offset) {
  return corrupt(what + "; the chunk is damaged, download the file again").at_byte(offset);
}

// Whether values of this type may be changed.
bool is_float(DType dtype) { return codec::find_lossy_encoder(CodecId::kDirect)->supports(dtype); }

// The options of cfck for a chunk, with a bound relative to the range made absolute.
TensorOptions options_of(const FilterRequest& request, double max_abs_error) {
  TensorOptions options = request.options;
  switch (request.mode) {
    case Mode::kLossless:
      break;
    case Mode::kMaxAbsError:
    case Mode::kMaxRelError:
      options.max_abs_error = max_abs_error;
      break;
    case Mode::kNmse:
      options.nmse = request.value;
      break;
    case Mode::kBitsPerWeight:
      options.bits_per_weight = request.value;
      break;
  }
  if (request.max_abs_error > 0) {
    options.max_abs_error = request.max_abs_error;
  }
  if (options.nmse || options.bits_per_weight || options.codec == CodecChoice::kSpectral) {
    options.steps = StepPreset::kFlat;  // the values are data, not the weights of a known model
  }
  return options;
}

Result<encode::TensorChoice> choose(const FilterRequest& request, const ChunkValues& values,
                                    double max_abs_error) {
  EncodeOptions of_file;
  of_file.level = request.level;
  CFCK_TRY_ASSIGN(const encode::EncodeRules rules, encode::EncodeRules::create(of_file));
  return rules.choose("", values.dtype, values.shape, options_of(request, max_abs_error));
}

encode::TensorChoice without_loss(const FilterRequest& request) {
  encode::TensorChoice choice;
  choice.codec = encode::lossless_codec(request.options.codec);
  return choice;
}

// `bytes` are in little-endian order, and have all fill values.
Result<encode::TensorChoice> choice_for(const FilterRequest& request, const ChunkValues& values,
                                        ByteView bytes) {
  if (!request.is_lossy()) {
    return without_loss(request);
  }
  double bound = request.value;
  if (request.mode == Mode::kMaxRelError) {
    bound = share_of_range(values.dtype, bytes, values.fill_bits, request.value);
    if (bound < kSmallestBound) {
      return without_loss(request);
    }
    bound = std::min(bound, kLargestBound);
  }
  return choose(request, values, bound);
}

encode::EncodePlan plan_for(const FilterRequest& request, const ChunkValues& values,
                            const ByteSource& source) {
  encode::EncodePlan plan;
  plan.dtype = values.dtype;
  plan.shape = values.shape;
  const std::uint64_t n_values = source.size() * 8 / bits_per_element(values.dtype);
  plan.geometry = codec::chunk_geometry(values.dtype, n_values, source.size(), n_values);
  plan.source = &source;
  plan.entropy = request.entropy;
  plan.level = request.level;
  return plan;
}

// Finds the step of codec spectral, or that the chunk is smaller without loss. A chunk whose values
// cannot be had at a rate, such as one of nothing but NaNs, is stored without loss: HDF5 writes
// chunks when files are closed, where an error would lose what was written before.
Result<void> find_step(encode::EncodePlan& plan, const FilterRequest& request) {
  encode::RateControl control(kCosts, 1, [](const StepSearch&) -> Result<void> { return {}; });
  const auto decisions = control.decide(plan.choice.spectral->target, {&plan, 1});
  if (!decisions && decisions.error().code != ErrorCode::kInvalidArgument) {
    return decisions.error();
  }
  plan.request = decisions ? decisions->front().request : nullptr;
  if (plan.request == nullptr) {
    plan.choice = without_loss(request);
  }
  return {};
}

// What is encoded: the bytes themselves, or a copy with reversed values and without fill values.
// Sets the choice, which depends on the values before those are hidden.
Result<ByteView> prepare(const FilterRequest& request, const ChunkValues& values, ByteView bytes,
                         ChunkMemory& memory, Header& header, encode::TensorChoice& choice) {
  ByteView prepared = bytes;
  if (values.is_big_endian) {
    memory.values.resize(bytes.size());
    reverse_bytes(bits_per_element(values.dtype) / 8, bytes, memory.values.data());
    header.flags |= kReversed;
    prepared = memory.values;
  }
  CFCK_TRY_ASSIGN(choice, choice_for(request, values, prepared));
  if (!choice.is_lossy() || !is_apart(values.dtype, values.fill_bits)) {
    return prepared;
  }
  if (prepared.data() == bytes.data()) {
    memory.values.assign(bytes.begin(), bytes.end());
  }
  if (hide_fill(values.dtype, values.fill_bits, memory.values, memory.mask)) {
    CFCK_TRY(codec::compress_bytes(memory.mask, memory.worker.scratch, memory.mask_frame));
    header.flags |= kHidesFill;
    header.mask_bytes = static_cast<std::uint32_t>(memory.mask_frame.size());
  }
  return ByteView(memory.values);
}

std::vector<std::byte> write_header(const Header& header, ByteView mask_frame, ByteView payload) {
  std::vector<std::byte> bytes(header.size());
  std::memcpy(bytes.data(), kMagic, sizeof(kMagic));
  bytes[4] = static_cast<std::byte>(header.codec);
  bytes[5] = static_cast<std::byte>(header.entropy);
  bytes[6] = static_cast<std::byte>(header.dtype);
  bytes[7] = static_cast<std::byte>(header.flags);
  store<std::uint64_t>(bytes.data() + 8, header.n_bytes);
  if (header.hides_fill()) {
    store<std::uint32_t>(bytes.data() + kHeaderBytes, header.mask_bytes);
    std::copy(mask_frame.begin(), mask_frame.end(), bytes.begin() + kMaskAt);
  }
  // The hash of the payload, and then of all the header but the hash.
  store<std::uint64_t>(bytes.data() + kHashAt, hash64(payload));
  store<std::uint64_t>(bytes.data() + kHashAt, hash64(bytes));
  return bytes;
}

// Requires: the header is no longer than what is stored.
std::uint64_t hash_of(ByteView stored, std::size_t header_bytes) {
  std::vector<std::byte> header(stored.begin(), stored.begin() + header_bytes);
  store<std::uint64_t>(header.data() + kHashAt, hash64(stored.subspan(header_bytes)));
  return hash64(header);
}

Header read_header(ByteView stored) {
  Header header;
  header.codec = static_cast<CodecId>(stored[4]);
  header.entropy = static_cast<EntropyId>(stored[5]);
  header.dtype = static_cast<DType>(stored[6]);
  header.flags = static_cast<std::uint8_t>(stored[7]);
  header.n_bytes = load<std::uint64_t>(stored.data() + 8);
  if (header.hides_fill() && stored.size() >= kMaskAt) {
    header.mask_bytes = load<std::uint32_t>(stored.data() + kHeaderBytes);
  }
  return header;
}

// Whether the header agrees with itself and with the dataset. Its bytes are those that were
// written.
Result<void> check_header(const Header& header, const ChunkValues& values, std::size_t n_stored) {
  if ((header.flags & ~(kReversed | kHidesFill)) != 0) {
    return unsupported(
        "the chunk was written by a newer cfck, which marks it in a way that this "
        "plug-in does not know; install that");
  }
  const unsigned bits = bits_per_element(header.dtype);
  if (bits == 0 || bits % 8 != 0 || header.n_bytes == 0 || header.n_bytes > codec::kMaxChunkBytes ||
      header.n_bytes % (bits / 8) != 0) {
    return damaged("the header of the chunk says that it has " + std::to_string(header.n_bytes) +
                       " bytes of type " + std::string(dtype_name(header.dtype)),
                   6);
  }
  const bool is_lossless = header.codec == CodecId::kRaw || header.codec == CodecId::kLossless;
  const bool is_plain = header.dtype == DType::kU8 && header.flags == 0 && is_lossless;
  const bool is_described = header.dtype == values.dtype && header.n_bytes == values.n_bytes() &&
                            ((header.flags & kReversed) != 0) == values.is_big_endian;
  if (!is_described && !is_plain) {
    return damaged("the chunk has other values than the dataset", 6);
  }
  // libhdf5 reads as many bytes as a chunk of the dataset has, without asking how many there are.
  if (values.size_is_known() && header.n_bytes != values.n_bytes()) {
    return damaged("the chunk has " + std::to_string(header.n_bytes) + " bytes, and those of the " +
                       "dataset have " + std::to_string(values.n_bytes()),
                   8);
  }
  if (header.hides_fill() && !is_float(header.dtype)) {
    return damaged("the chunk hides a fill value, and has no floats", 7);
  }
  if (header.codec == CodecId::kRaw && header.n_bytes != n_stored - header.size()) {
    return damaged("the chunk has another length than its header says", 8);
  }
  if (header.codec != CodecId::kRaw && codec::find_decoder(header.codec) == nullptr) {
    return unsupported("the chunk has codec " +
                       std::to_string(static_cast<unsigned>(header.codec)) +
                       ", which this plug-in does not know; install a newer cfck");
  }
  return {};
}

}  // namespace

Result<void> check_request(const FilterRequest& request, const ChunkValues& values) {
  if (values.n_bytes() == 0 || values.n_bytes() > codec::kMaxChunkBytes) {
    return unsupported("a chunk of the dataset has more than 64 MiB; choose smaller chunks");
  }
  if (request.is_lossy() && !is_float(values.dtype)) {
    return invalid_argument(
        "maximum errors and targets apply to floats only, and the dataset has " +
        std::string(dtype_name(values.dtype)) +
        "; leave them out for it, and it is stored without loss");
  }
  const double n_values =
      static_cast<double>(values.n_bytes() * 8 / bits_per_element(values.dtype));
  if (request.mode == Mode::kBitsPerWeight && request.value * n_values < kSmallestRate * 8) {
    return invalid_argument("bits_per_weight leaves less than " + std::to_string(kSmallestRate) +
                            " bytes to a chunk; choose larger chunks or more bits");
  }
  // An absolute bound stands for a relative one: neither depends on the values here.
  const bool is_relative = request.mode == Mode::kMaxRelError;
  CFCK_TRY(choose(request, values, is_relative ? 1 : request.value));
  return {};
}

Result<StoredChunk> store_chunk(const FilterRequest& request, const ChunkValues& described,
                                ByteView bytes, ChunkMemory& memory) {
  const bool is_whole = bytes.size() == described.n_bytes();
  if (!is_whole && described.size_is_known()) {
    return invalid_argument("the chunk has " + std::to_string(bytes.size()) + " bytes and not " +
                            std::to_string(described.n_bytes()) +
                            ", as those of the dataset; create the dataset again");
  }
  if (!is_whole && request.is_lossy()) {
    return invalid_argument("the chunk has " + std::to_string(bytes.size()) + " bytes and not " +
                            std::to_string(described.n_bytes()) +
                            ": another filter changed it before; bounds and targets need cfck to "
                            "be the first filter");
  }
  if (bytes.empty() || bytes.size() > codec::kMaxChunkBytes) {
    return unsupported("a chunk of the dataset has more than 64 MiB; choose smaller chunks");
  }
  const ChunkValues values =
      is_whole ? described : ChunkValues{DType::kU8, false, 0, {bytes.size()}};
  Header header;
  header.dtype = values.dtype;
  header.n_bytes = bytes.size();
  encode::TensorChoice choice;
  CFCK_TRY_ASSIGN(const ByteView prepared, prepare(request, values, bytes, memory, header, choice));
  const MemorySource source(prepared);
  encode::EncodePlan plan = plan_for(request, values, source);
  plan.choice = std::move(choice);
  if (plan.choice.spectral) {
    CFCK_TRY(find_step(plan, request));
  }
  CFCK_TRY_ASSIGN(const encode::SingleChoice chosen,
                  encode::choose_for_values(plan, kCosts, prepared, memory.worker));
  header.codec = chosen.candidate.codec;
  header.entropy = chosen.candidate.entropy;
  StoredChunk stored;
  stored.payload =
      header.codec == CodecId::kRaw ? prepared : ByteView(memory.worker.encoded.payload);
  stored.header = write_header(header, memory.mask_frame, stored.payload);
  return stored;
}

Result<std::uint64_t> check_stored(const ChunkValues& values, ByteView stored) {
  if (stored.size() < kHeaderBytes) {
    return truncated("the chunk has " + std::to_string(stored.size()) +
                     " bytes, fewer than its header; download the file again");
  }
  if (std::memcmp(stored.data(), kMagic, 3) != 0) {
    return damaged("the chunk does not begin as one of the cfck filter", 0);
  }
  if (stored[3] != static_cast<std::byte>(kMagic[3])) {
    return unsupported("the chunk was written by another version of the cfck filter, '" +
                       std::string(1, static_cast<char>(stored[3])) +
                       "'; this plug-in reads '1'; install a cfck that has it");
  }
  const Header header = read_header(stored);
  if (stored.size() < header.size() ||
      hash_of(stored, header.size()) != load<std::uint64_t>(stored.data() + kHashAt)) {
    return wrong_checksum(
        "the bytes of the chunk changed after they were written: their checksum is wrong; download "
        "the file again");
  }
  CFCK_TRY(check_header(header, values, stored.size()));
  return header.n_bytes;
}

Result<void> load_chunk(const ChunkValues& values, ByteView stored, ChunkMemory& memory,
                        MutableBytes out) {
  const Header header = read_header(stored);
  const ByteView payload = stored.subspan(header.size());
  if (header.codec == CodecId::kRaw) {
    std::copy(payload.begin(), payload.end(), out.begin());
  } else {
    codec::ChunkInfo info;
    info.dtype = header.dtype;
    info.entropy = header.entropy;
    info.n_elems = header.n_bytes * 8 / bits_per_element(header.dtype);
    const Shape flat = {info.n_elems};
    info.shape = header.n_bytes == values.n_bytes() && header.dtype == values.dtype
                     ? std::span<const std::uint64_t>(values.shape)
                     : std::span<const std::uint64_t>(flat);
    if (auto decoded =
            codec::find_decoder(header.codec)->decode(info, payload, memory.worker.scratch, out);
        !decoded) {
      Error error = std::move(decoded).error();
      error.byte_offset = error.byte_offset.value_or(0) + header.size();
      return error;
    }
  }
  if (header.hides_fill()) {
    memory.mask.resize(ceil_div(out.size() / (bits_per_element(header.dtype) / 8), 8));
    CFCK_TRY(codec::decompress_frame(stored.subspan(kMaskAt, header.mask_bytes),
                                     memory.worker.scratch, memory.mask));
    show_fill(header.dtype, values.fill_bits, memory.mask, out);
  }
  if ((header.flags & kReversed) != 0) {
    reverse_bytes(bits_per_element(header.dtype) / 8, out, out.data());
  }
  return {};
}

}  // namespace cfck::hdf5
