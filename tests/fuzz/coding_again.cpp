#include "tests/fuzz/coding_again.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "tests/codec/direct/direct_cases.hpp"
#include "tests/fuzz/every_level.hpp"
#include "tests/registry/codec_rows.hpp"

namespace cfck::codec {
namespace {

using test::at_every_level;
using test::require;

// Rows with many states take long for more values.
constexpr std::uint64_t kMaxRowValues = 1024;

using Check = void (*)(const ChunkInfo&, const std::vector<std::byte>&, Scratch&);

// Codecs with more to check than the table of codecs asks for.
struct OwnCheck {
  CodecId codec;
  Check check;
};
constexpr OwnCheck kOwnChecks[] = {{CodecId::kDirect, check_direct_parameters},
                                   {CodecId::kSpectral, check_spectral_parameters}};

void require_decodes_to(CodecId codec, const ChunkInfo& info, ByteView payload,
                        const std::vector<std::byte>& expected, Scratch& scratch) {
  const auto body_bytes = find_decoder(codec)->body_bytes(info, payload);
  require(body_bytes && *body_bytes <= payload.size());
  std::vector<std::byte> again(expected.size());
  require(at_every_level(again, [&](std::vector<std::byte>& out) {
            return find_decoder(codec)->decode(info, payload, scratch, out);
          }).has_value());
  require(again == expected);
}

void check_exact(CodecId codec, ChunkInfo info, const std::vector<std::byte>& values,
                 Scratch& scratch) {
  const Encoder& encoder = *find_encoder(codec);
  info.preamble = {};
  std::vector<std::byte> payload;
  require(at_every_level(payload, [&](std::vector<std::byte>& out) -> Result<void> {
            EncodedChunk encoded;
            CFCK_TRY(encoder.encode(info, values, scratch, encoded));
            out = std::move(encoded.payload);
            return {};
          }).has_value());
  require(payload.size() <= values.size() + encoder.max_overhead_bytes());
  require_decodes_to(codec, info, payload, values, scratch);
}

// The record of the chunk, or, where that has more chunks, of its values alone.
LossyRecord record_of(const CodecRow& row, const ChunkInfo& info) {
  LossyRecord record;
  record.dtype = info.dtype;
  record.shape = Shape(info.shape.begin(), info.shape.end());
  std::uint64_t n_values = 1;
  for (const std::uint64_t dimension : info.shape) {
    n_values *= dimension;
  }
  if (n_values != info.n_elems) {
    record.shape = {info.n_elems};
  }
  record.chunk_elems = info.n_elems;
  record.entropy = info.entropy;
  record.is_forced = true;
  row.ask(record);
  return record;
}

void check_row(const CodecRow& row, const ChunkInfo& info, const std::vector<std::byte>& values,
               Scratch& scratch) {
  const LossyRecord record = record_of(row, info);
  const std::size_t value_bytes = bits_per_element(info.dtype) / 8;
  const ReadValues read = [&](std::uint64_t first, std::uint64_t n, std::vector<std::byte>&) {
    return Result<ByteView>(ByteView(values).subspan(first * value_bytes, n * value_bytes));
  };
  std::unique_ptr<const LossyPlan> plan;
  EncodedChunk chunk;
  std::vector<std::byte> decoded(values.size());
  std::vector<std::byte> bytes;
  const auto coded = at_every_level(bytes, [&](std::vector<std::byte>& out) -> Result<void> {
    CFCK_TRY_ASSIGN(LossyDecision decision,
                    find_lossy_encoder(row.codec)->plan(record, read, scratch));
    plan = std::move(decision.plan);
    out.clear();
    if (plan == nullptr) {
      return {};
    }
    ErrorTotals errors;
    CFCK_TRY(plan->encode(0, values, scratch, decoded, chunk, errors));
    out.assign(plan->preamble().begin(), plan->preamble().end());
    out.insert(out.end(), chunk.payload.begin(), chunk.payload.end());
    return {};
  });
  if (!coded || plan == nullptr) {
    return;  // a bound that these values cannot keep
  }
  ChunkInfo again = info;
  again.entropy = plan->entropy();
  again.shape = record.shape;
  again.first_elem = 0;
  again.preamble = plan->preamble();
  require_decodes_to(row.codec, again, chunk.payload, decoded, scratch);
  if (row.max_abs_error) {
    require_within(info.dtype, values, decoded, *row.max_abs_error);
  }
}

void check_some_row(CodecId codec, const ChunkInfo& info, const std::vector<std::byte>& values,
                    Scratch& scratch) {
  std::vector<const CodecRow*> rows;
  for (const CodecRow& row : codec_rows()) {
    if (row.codec == codec && !row.is_lossless()) {
      rows.push_back(&row);
    }
  }
  if (!rows.empty() && info.n_elems <= kMaxRowValues) {
    check_row(*rows[info.n_elems % rows.size()], info, values, scratch);
  }
}

}  // namespace

void require_within(DType dtype, ByteView values, ByteView decoded, double bound) {
  const std::size_t value_bytes = bits_per_element(dtype) / 8;
  for (std::size_t at = 0; at < values.size(); at += value_bytes) {
    const double before = double_of(dtype, values.data() + at);
    const double after = double_of(dtype, decoded.data() + at);
    require(std::memcmp(values.data() + at, decoded.data() + at, value_bytes) == 0 ||
            (std::isfinite(before) && std::isfinite(after) && within(before, after, bound)));
  }
}

void check_coding_again(CodecId codec, const ChunkInfo& info, const std::vector<std::byte>& values,
                        Scratch& scratch) {
  if (find_encoder(codec) != nullptr) {
    check_exact(codec, info, values, scratch);
  }
  const LossyEncoder* const lossy = find_lossy_encoder(codec);
  if (lossy != nullptr && lossy->supports(info.dtype)) {
    check_some_row(codec, info, values, scratch);
  }
  for (const OwnCheck& own : kOwnChecks) {
    if (own.codec == codec) {
      own.check(info, values, scratch);
    }
  }
}

}  // namespace cfck::codec
