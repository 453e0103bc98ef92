#include "spectral/chunk/header.hpp"

#include "codec/common/chunk_shape.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/entropy/rans/section.hpp"
#include "codec/errors.hpp"
#include "spectral/layout/coefficient_fields.hpp"

namespace cfck::spectral {
namespace {

inline constexpr std::uint8_t kAllFlags =
    kSpectralExact | kSpectralEscapes | kSpectralBinEscapes | kSpectralRaw | kSpectralPath;

// Calls an action for each field with its flag, in the order of section 2 of the specification.
template <class Header, class Action>
void each_counted(Header& h, Action&& action) {
  action(kSpectralExact, h.n_exact);
  action(kSpectralExact, h.gap_bytes);
  action(kSpectralEscapes, h.n_escapes);
  action(kSpectralEscapes, h.code_bytes);
  action(kSpectralBinEscapes, h.n_bin_escapes);
  action(kSpectralPath, h.path_bytes);
  action(kSpectralRaw, h.raw_bytes);
}

Result<void> read_fields(VarintReader& in, EntropyId entropy, bool has_bins, SpectralHeader& h) {
  CFCK_TRY_ASSIGN(h.flags, in.byte());
  if (has_bins) {
    CFCK_TRY_ASSIGN(h.first_bin, in.varint());
  }
  CFCK_TRY_ASSIGN((entropy == EntropyId::kRans ? h.coded_bytes : h.split_bytes), in.varint());
  Result<void> result;
  each_counted(h, [&](std::uint8_t flag, std::uint32_t& field) {
    if (result && (h.flags & flag) != 0) {
      auto number = in.varint();
      if (!number) {
        result = std::move(number).error();
      } else if (*number == 0) {
        result = corrupt("the flags of a spectral chunk contradict its contents", in.position());
      } else {
        field = *number;
      }
    }
  });
  return result;
}

Result<std::uint64_t> check_fields(const SpectralHeader& h, bool has_bins,
                                   const ChunkShape& shape) {
  const std::uint64_t n = shape.n_values;
  const std::uint64_t n_groups = (n + kGroupSize - 1) / kGroupSize;
  if ((h.flags & ~kAllFlags) != 0 || (!has_bins && (h.flags & kSpectralBinEscapes) != 0)) {
    return corrupt("the flags of a spectral chunk contradict its contents", 1);
  }
  if (h.first_bin > kMaxSpectralBin || h.n_exact > n || h.gap_bytes < h.n_exact ||
      h.gap_bytes > std::uint64_t{5} * h.n_exact || h.n_escapes > n || h.code_bytes < h.n_escapes ||
      h.code_bytes > std::uint64_t{5} * h.n_escapes || h.n_bin_escapes > n_groups ||
      h.path_bytes > (n + 7) / 8 || h.raw_bytes > 4 * (n + kGroupSize) ||
      h.coded_bytes > max_section_bytes(n) || h.split_bytes > 5 * kDirectTables) {
    return corrupt("a count in the header of the chunk is out of range", 1);
  }
  return 2 * std::uint64_t{h.n_bin_escapes} + h.code_bytes + h.gap_bytes +
         std::uint64_t{h.n_exact} * shape.value_bytes + h.path_bytes + h.coded_bytes +
         h.split_bytes + h.raw_bytes;
}

}  // namespace

ChunkInfo lossless_info(const SpectralChunkInfo& info) {
  return {info.dtype, info.entropy, ScanId::kStorageOrder, info.n_elems,
          {},         info.shape,   info.first_elem};
}

Result<void> check_spectral_chunk(const SpectralChunkInfo& info) {
  if (info.dtype != DType::kF32 && info.dtype != DType::kF64 && info.dtype != DType::kF16 &&
      info.dtype != DType::kBF16) {
    return unsupported("the spectral codec supports F64, F32, BF16 and F16 only");
  }
  CFCK_TRY(chunk_shape(lossless_info(info)));
  CFCK_TRY_ASSIGN(const SpectralGeometry geometry, SpectralGeometry::create(info.shape, {}));
  if (info.first_elem >= geometry.n_values() ||
      info.n_elems > geometry.n_values() - info.first_elem) {
    return invalid_argument("the chunk is not part of its tensor");
  }
  return {};
}

Result<SpectralHeader> parse_spectral_header(const SpectralChunkInfo& info, ByteView payload) {
  CFCK_TRY_ASSIGN(const ChunkShape shape, chunk_shape(lossless_info(info)));
  VarintReader in(payload);
  SpectralHeader header;
  CFCK_TRY_ASSIGN(const std::uint8_t mode, in.byte());
  const SpectralParameters* parameters = info.parameters;
  if (mode == kSpectralInline) {
    CFCK_TRY_ASSIGN(header.parameters, read_spectral_parameters(info.shape, in));
    parameters = &*header.parameters;
  }
  if (parameters == nullptr) {
    return corrupt("the chunk needs parameters, and the record has no preamble", 0);
  }
  const bool has_bins = !predicts_bins(parameters->order);
  CFCK_TRY(read_fields(in, info.entropy, has_bins, header));
  CFCK_TRY_ASSIGN(const std::uint64_t section_bytes, check_fields(header, has_bins, shape));
  if (section_bytes + in.position() > 0xffffffffu) {
    return corrupt("the sections of the chunk are too long", 0);
  }
  header.header_bytes = static_cast<std::uint32_t>(in.position());
  header.body_bytes = static_cast<std::uint32_t>(section_bytes + in.position());
  return header;
}

void append_spectral_header(SpectralHeader& h, EntropyId entropy, bool has_bins,
                            const SpectralParameters* inline_parameters,
                            std::vector<std::byte>& out) {
  out.push_back(std::byte{inline_parameters == nullptr ? kSpectralPreamble : kSpectralInline});
  if (inline_parameters != nullptr) {
    append_spectral_parameters(*inline_parameters, out);
  }
  h.flags = 0;
  each_counted(h, [&](std::uint8_t flag, std::uint32_t field) {
    h.flags |= field != 0 ? flag : std::uint8_t{0};
  });
  out.push_back(static_cast<std::byte>(h.flags));
  if (has_bins) {
    append_varint(h.first_bin, out);
  }
  append_varint(entropy == EntropyId::kRans ? h.coded_bytes : h.split_bytes, out);
  each_counted(h, [&](std::uint8_t flag, std::uint32_t field) {
    if ((h.flags & flag) != 0) {
      append_varint(field, out);
    }
  });
}

Result<std::uint32_t> spectral_body_bytes(const SpectralChunkInfo& info, ByteView payload) {
  if (is_lossless_payload(payload)) {
    return lossless_body_bytes(lossless_info(info), payload);
  }
  CFCK_TRY(check_spectral_chunk(info));
  if (payload.empty() || payload[0] > std::byte{kSpectralPreamble}) {
    return payload.empty() ? truncated("the chunk is empty", 0)
                           : corrupt("unknown mode of a spectral chunk", 0);
  }
  CFCK_TRY_ASSIGN(const SpectralHeader header, parse_spectral_header(info, payload));
  return header.body_bytes;
}

}  // namespace cfck::spectral
