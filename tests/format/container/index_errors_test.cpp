// The tables of errors and qualities, of records that codec spectral wrote.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "codec/lossy.hpp"
#include "format/container/container.hpp"
#include "format/container/index/errors.hpp"

namespace cfck::format {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// A record of one chunk, and a duplicate of it.
Index spectral_index() {
  Index index;
  StoredRecord stored;
  Record& record = stored.record;
  record.name = "w";
  record.dtype = DType::kF32;
  record.codec = CodecId::kSpectral;
  record.entropy = EntropyId::kRans;
  record.shape = {10, 10};
  record.n_elems = 100;
  record.decoded_bytes = 400;
  record.chunk_elems = 100;
  record.n_chunks = 1;
  record.error = RecordError{{BoundKind::kNone, false, 0}, 0.25, 0.125};
  record.error->quality = RecordQuality{{TargetKind::kNmse, true, 0.01}, 1.25, -2, 1.5};
  stored.offset_bytes = 16;
  index.chunks.push_back({100, 1});
  index.records.push_back(stored);
  Record copy = record;
  copy.name = "copy";
  copy.kind = RecordKind::kDuplicate;
  copy.base = 0;
  copy.chunk_elems = copy.n_chunks = 0;
  index.records.push_back({});
  index.records.back().record = copy;
  return index;
}

Result<Index> read_back(const Index& index) { return decode_index(*encode_index(index), 1000, {}); }

TEST(IndexErrors, RoundTrip) {
  const std::function<void(RecordError&)> changes[] = {
      [](RecordError&) {},
      [](RecordError& error) {
        error.quality->target = {TargetKind::kSize, true, 1e6};
      },
      [](RecordError& error) {
        error.quality->target = {TargetKind::kBitsPerWeight, false, 3};
      },
      [](RecordError& error) {
        error.quality->target = {TargetKind::kPsnr, false, 40};
      },
      [](RecordError& error) {
        error.bound = {BoundKind::kAbs, false, 0.25};
        error.quality->target = {};
      },
      [](RecordError& error) { error.max_abs_error = error.rmse = 0; },
      [](RecordError& error) {
        error.quality->rms = error.quality->max = error.quality->min = 1.5;
      }};
  for (const auto& change : changes) {
    Index index = spectral_index();
    change(*index.records[0].record.error);
    const Result<Index> decoded = read_back(index);
    ASSERT_TRUE(decoded) << decoded.error().to_string();
    EXPECT_EQ(decoded->records[0].record.error, index.records[0].record.error);
    // The error of the base also applies to the duplicate.
    EXPECT_EQ(decoded->records[1].record.error, index.records[0].record.error);
  }
}

TEST(IndexErrors, UnknownCodecsMayHaveEntriesOfBothKinds) {
  Index index = spectral_index();
  for (StoredRecord& stored : index.records) {
    stored.record.codec = static_cast<CodecId>(77);
  }
  ASSERT_TRUE(read_back(index));
  index.records[0].record.error->quality.reset();
  EXPECT_TRUE(read_back(index));
}

TEST(IndexErrors, EntriesThatCannotBeAreRefused) {
  using Change = std::function<void(Record&, RecordError&, RecordQuality&)>;
  const std::pair<const char*, Change> changes[] = {
      {"no error", [](Record& r, RecordError&, RecordQuality&) { r.error.reset(); }},
      {"no quality", [](Record& r, RecordError&, RecordQuality&) { r.error->quality.reset(); }},
      {"quality of direct",
       [](Record& r, RecordError& e, RecordQuality&) {
         r.codec = CodecId::kDirect;
         e.bound = {BoundKind::kAbs, false, 1};
       }},
      {"direct without a bound",
       [](Record& r, RecordError& e, RecordQuality&) {
         r.codec = CodecId::kDirect;
         e.quality.reset();
       }},
      {"quality of lossless",
       [](Record& r, RecordError&, RecordQuality&) { r.codec = CodecId::kLossless; }},
      {"no bound, but a value", [](Record&, RecordError& e, RecordQuality&) { e.bound.value = 1; }},
      {"no bound, but by row",
       [](Record&, RecordError& e, RecordQuality&) { e.bound.per_row = true; }},
      {"bound not kept",
       [](Record&, RecordError& e, RecordQuality&) {
         e.bound = {BoundKind::kAbs, false, 0.2};
       }},
      {"error of no number",
       [](Record&, RecordError& e, RecordQuality&) { e.max_abs_error = kNoNumber; }},
      {"unknown target",
       [](Record&, RecordError&, RecordQuality& q) { q.target.kind = static_cast<TargetKind>(5); }},
      {"no target, but a value",
       [](Record&, RecordError&, RecordQuality& q) {
         q.target = {TargetKind::kNone, false, 1};
       }},
      {"no target, but of the file",
       [](Record&, RecordError&, RecordQuality& q) {
         q.target = {TargetKind::kNone, true, 0};
       }},
      {"target of zero", [](Record&, RecordError&, RecordQuality& q) { q.target.value = 0; }},
      {"target below zero", [](Record&, RecordError&, RecordQuality& q) { q.target.value = -1; }},
      {"infinite target",
       [](Record&, RecordError&, RecordQuality& q) { q.target.value = kInfinity; }},
      {"target of no number",
       [](Record&, RecordError&, RecordQuality& q) { q.target.value = kNoNumber; }},
      {"least above greatest", [](Record&, RecordError&, RecordQuality& q) { q.min = 2; }},
      {"infinite values", [](Record&, RecordError&, RecordQuality& q) { q.max = kInfinity; }},
      {"values of no number", [](Record&, RecordError&, RecordQuality& q) { q.min = kNoNumber; }},
      {"root mean square above the values",
       [](Record&, RecordError&, RecordQuality& q) { q.rms = 2.01; }},
      {"negative root mean square", [](Record&, RecordError&, RecordQuality& q) { q.rms = -1; }},
      {"root mean square of no number",
       [](Record&, RecordError&, RecordQuality& q) { q.rms = kNoNumber; }}};
  for (const auto& [what, change] : changes) {
    Index index = spectral_index();
    Record& record = index.records[0].record;
    change(record, *record.error, *record.error->quality);
    index.records[1].record.codec = record.codec;
    const Result<Index> decoded = read_back(index);
    ASSERT_FALSE(decoded) << what;
    EXPECT_EQ(decoded.error().code, ErrorCode::kCorrupt) << what;
  }
}

TEST(IndexErrors, EveryBitOfTheFlagsAndReservedBytesIsChecked) {
  const std::vector<std::byte> frame = *encode_index(spectral_index());
  // Errors come after the header, two record entries, lengths, hashes, and four dimensions.
  const std::size_t error_at = 12 + 32 + 2 * 48 + 12 + 4 * 8;
  const std::size_t quality_at = error_at + 32;
  std::vector<std::size_t> zeros;
  for (std::size_t i = 26; i < 32; ++i) zeros.push_back(error_at + i);
  for (std::size_t i = 34; i < 40; ++i) zeros.push_back(quality_at + i);
  zeros.push_back(12 + 32 + 48 + 8);  // flags of the duplicate
  zeros.push_back(12 + 32 + 9);
  for (const std::size_t at : zeros) {
    for (unsigned bit = 1; bit < 256; bit *= 2) {
      std::vector<std::byte> damaged = frame;
      damaged[at] ^= static_cast<std::byte>(bit);
      EXPECT_FALSE(decode_index(damaged, 1000, {})) << at << ", " << bit;
    }
  }
  for (const unsigned bit : {4u, 8u, 16u, 32u, 64u, 128u}) {
    std::vector<std::byte> damaged = frame;
    damaged[12 + 32 + 8] ^= static_cast<std::byte>(bit);
    EXPECT_FALSE(decode_index(damaged, 1000, {})) << bit;
  }
}

// The rules are a table of the format; the registry has the codecs.
TEST(IndexErrors, EveryLossyCodecHasErrorsAndNoOther) {
  EXPECT_EQ(rules_of(CodecId::kRaw).error, Presence::kNever);
  std::size_t n_codecs = 0;
  for (const std::string_view name : codec_choice_names().subspan(2)) {
    const auto choice = static_cast<unsigned>(*codec_choice_from_name(name));
    const auto id = static_cast<CodecId>(choice - 1);
    const bool may_lose = codec::find_lossy_encoder(id) != nullptr;
    const bool may_lose_nothing = codec::find_encoder(id) != nullptr;
    const Presence error = !may_lose          ? Presence::kNever
                           : may_lose_nothing ? Presence::kAllowed
                                              : Presence::kAlways;
    EXPECT_EQ(rules_of(id).error, error) << name;
    EXPECT_TRUE(may_lose || may_lose_nothing) << name;
    ++n_codecs;
  }
  EXPECT_GE(n_codecs, 4u);
  EXPECT_EQ(rules_of(static_cast<CodecId>(77)).error, Presence::kAllowed);
}

}  // namespace
}  // namespace cfck::format
