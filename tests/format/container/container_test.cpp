// The index: decoding restores what was encoded, and everything the specification forbids is
// refused.
#include "format/container/container.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "base/bytes.hpp"
#include "tests/support/container_samples.hpp"

namespace cfck::format {
namespace {

constexpr std::uint64_t kOffset = 1000;

StoredRecord chunked(std::string name, DType dtype, Shape shape, std::uint64_t chunk_elems) {
  StoredRecord stored;
  Record& record = stored.record;
  record.name = std::move(name);
  record.dtype = dtype;
  record.codec = CodecId::kLossless;
  record.entropy = EntropyId::kZstd;
  record.shape = std::move(shape);
  record.n_elems = *n_elems(record.shape);
  record.decoded_bytes = *n_bytes(dtype, record.shape);
  record.chunk_elems = chunk_elems;
  record.n_chunks = chunk_count(record.n_elems, chunk_elems);
  stored.offset_bytes = 4096;
  return stored;
}

// One record of each kind, an empty one, and a hidden one.
Index sample_index() {
  Index index;
  StoredRecord first = chunked("first", DType::kF32, {10, 10}, 40);
  first.has_preamble = true;
  first.record.codec = CodecId::kDirect;
  first.record.error = RecordError{{BoundKind::kSigma, true, 0.5}, 0.25, 0.125};
  for (std::uint32_t i = 0; i < 4; ++i) {
    index.chunks.push_back({100 + i, 77 * (i + 1)});
    first.record.stored_bytes += 100 + i;
  }
  index.records.push_back(first);
  index.records.push_back(chunked("none", DType::kF32, {0, 5}, 1));
  index.records.back().offset_bytes = 0;
  index.records.back().first_chunk = 4;
  StoredRecord packed = chunked("", DType::kU8, {6}, 6);
  packed.record.kind = RecordKind::kPacked;
  packed.record.hidden = true;
  packed.pack_offset = 12;
  packed.payload_bytes = 30;
  packed.record.stored_bytes = 30;
  packed.offset_bytes = 0;
  index.records.push_back(packed);
  StoredRecord alias = chunked("alias", DType::kU8, {2, 2}, 1);
  alias.record.kind = RecordKind::kAlias;
  alias.record.base = 2;
  alias.record.element_offset = 1;
  alias.record.strides = {3, 1};
  index.records.push_back(alias);
  StoredRecord duplicate = chunked("copy", DType::kF32, {10, 10}, 40);
  duplicate.record.kind = RecordKind::kDuplicate;
  duplicate.record.codec = CodecId::kDirect;
  index.records.push_back(duplicate);
  for (std::size_t i = 3; i < 5; ++i) {
    Record& record = index.records[i].record;
    record.chunk_elems = 0;
    record.n_chunks = 0;
    index.records[i].offset_bytes = 0;
  }
  index.records[4].record.error = index.records[0].record.error;
  index.packs.push_back({16, 42, 5});
  return index;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<std::byte> encoded(const Index& index) { return *encode_index(index); }

void expect_equal(const StoredRecord& a, const StoredRecord& b) {
  SCOPED_TRACE(a.record.name);
  EXPECT_EQ(a.record.name, b.record.name);
  EXPECT_EQ(a.record.hidden, b.record.hidden);
  EXPECT_EQ(a.record.kind, b.record.kind);
  EXPECT_EQ(a.record.dtype, b.record.dtype);
  EXPECT_EQ(a.record.codec, b.record.codec);
  EXPECT_EQ(a.record.entropy, b.record.entropy);
  EXPECT_EQ(a.record.shape, b.record.shape);
  EXPECT_EQ(a.record.base, b.record.base);
  EXPECT_EQ(a.record.element_offset, b.record.element_offset);
  EXPECT_EQ(a.record.strides, b.record.strides);
  EXPECT_EQ(a.record.n_elems, b.record.n_elems);
  EXPECT_EQ(a.record.decoded_bytes, b.record.decoded_bytes);
  EXPECT_EQ(a.record.stored_bytes, b.record.stored_bytes);
  EXPECT_EQ(a.record.chunk_elems, b.record.chunk_elems);
  EXPECT_EQ(a.record.n_chunks, b.record.n_chunks);
  EXPECT_EQ(a.record.digest, b.record.digest);
  EXPECT_EQ(a.record.error, b.record.error);
  EXPECT_EQ(a.has_preamble, b.has_preamble);
  EXPECT_EQ(a.offset_bytes, b.offset_bytes);
  EXPECT_EQ(a.pack, b.pack);
  EXPECT_EQ(a.pack_offset, b.pack_offset);
  EXPECT_EQ(a.payload_bytes, b.payload_bytes);
}

TEST(Index, RoundTrip) {
  const Index index = sample_index();
  const Result<Index> decoded = decode_index(encoded(index), kOffset, {});
  ASSERT_TRUE(decoded) << decoded.error().to_string();
  ASSERT_EQ(decoded->records.size(), index.records.size());
  for (std::size_t i = 0; i < index.records.size(); ++i) {
    expect_equal(decoded->records[i], index.records[i]);
  }
  ASSERT_EQ(decoded->chunks.size(), 4U);
  EXPECT_EQ(decoded->chunks[2].n_bytes, 102U);
  EXPECT_EQ(decoded->chunks[2].hash, 231U);
  ASSERT_EQ(decoded->packs.size(), 1U);
  EXPECT_EQ(decoded->packs[0].hash, 5U);
}

TEST(Index, Empty) {
  const Result<Index> decoded = decode_index(encoded({}), kOffset, {});
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(decoded->records.empty());
}

TEST(Index, EveryPrefixIsRefused) {
  const std::vector<std::byte> frame = encoded(sample_index());
  for (std::size_t n_bytes = 0; n_bytes < frame.size(); ++n_bytes) {
    std::vector<std::byte> part(frame.begin(),
                                frame.begin() + static_cast<std::ptrdiff_t>(n_bytes));
    if (n_bytes >= 8) {
      store(part.data() + 4, static_cast<std::uint32_t>(n_bytes - 8));
    }
    EXPECT_FALSE(decode_index(part, kOffset, {})) << n_bytes;
  }
}

TEST(Index, ExtraBytesAreRefused) {
  std::vector<std::byte> frame = encoded(sample_index());
  frame.push_back(std::byte{0});
  store(frame.data() + 4, static_cast<std::uint32_t>(frame.size() - 8));
  EXPECT_EQ(decode_index(frame, kOffset, {}).error().code, ErrorCode::kCorrupt);
}

struct BadIndex {
  const char* what;
  std::function<void(Index&)> change;
};

class BadIndexTest : public testing::TestWithParam<BadIndex> {};

TEST_P(BadIndexTest, IsRefused) {
  Index index = sample_index();
  GetParam().change(index);
  const Result<Index> decoded = decode_index(encoded(index), kOffset, {});
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, ErrorCode::kCorrupt) << decoded.error().to_string();
}

Record& record_of(Index& index, std::size_t i) { return index.records[i].record; }
enum Place : std::size_t { kFirst, kNone, kPackedPlace, kAliasPlace, kCopy };

ErrorBound& bound_of(Index& index) { return record_of(index, kFirst).error->bound; }

const BadIndex kBadIndexes[] = {
    {"duplicate name", [](Index& i) { record_of(i, kAliasPlace).name = "copy"; }},
    {"two empty names",
     [](Index& i) { record_of(i, kAliasPlace).name = record_of(i, kCopy).name = ""; }},
    {"name is not UTF-8", [](Index& i) { record_of(i, kFirst).name = "\xFF"; }},
    {"hidden with a name", [](Index& i) { record_of(i, kPackedPlace).name = "x"; }},
    {"hidden alias",
     [](Index& i) {
       record_of(i, kAliasPlace).name = "";
       record_of(i, kAliasPlace).hidden = true;
     }},
    {"unknown kind", [](Index& i) { record_of(i, kCopy).kind = static_cast<RecordKind>(4); }},
    {"dimension of 2^48",
     [](Index& i) {
       record_of(i, kNone).shape = {0, std::uint64_t{1} << 48};
     }},
    {"product of 2^63",
     [](Index& i) {
       record_of(i, kNone).shape = {0, std::uint64_t{1} << 40, std::uint64_t{1} << 40};
     }},
    {"bytes above 2^63",
     [](Index& i) {
       record_of(i, kFirst).shape = {std::uint64_t{1} << 47, std::uint64_t{1} << 15};
     }},
    {"chunk length 0", [](Index& i) { record_of(i, kFirst).chunk_elems = 0; }},
    {"chunk longer than the tensor", [](Index& i) { record_of(i, kFirst).chunk_elems = 101; }},
    {"fewer chunks than listed", [](Index& i) { record_of(i, kFirst).chunk_elems = 50; }},
    {"more chunks than listed", [](Index& i) { record_of(i, kFirst).chunk_elems = 1; }},
    {"chunk above 64 MiB",
     [](Index& i) {
       record_of(i, kFirst).shape = {3, 20000000};
       record_of(i, kFirst).chunk_elems = 20000000;
     }},
    {"sub-byte chunks",
     [](Index& i) {
       record_of(i, kFirst).dtype = record_of(i, kCopy).dtype = DType::kF4;
       record_of(i, kFirst).chunk_elems = 36;
     }},
    {"sub-byte tensor inside a byte",
     [](Index& i) {
       record_of(i, kPackedPlace).dtype = record_of(i, kAliasPlace).dtype = DType::kF6E2M3;
     }},
    {"lossy without an error", [](Index& i) { record_of(i, kFirst).error.reset(); }},
    {"lossless with an error",
     [](Index& i) { record_of(i, kPackedPlace).error = record_of(i, kFirst).error; }},
    {"empty record with an error",
     [](Index& i) {
       record_of(i, kNone).codec = CodecId::kDirect;
       record_of(i, kNone).error = record_of(i, kFirst).error;
     }},
    {"unknown kind of bound", [](Index& i) { bound_of(i).kind = static_cast<BoundKind>(4); }},
    {"no kind of bound", [](Index& i) { bound_of(i).kind = static_cast<BoundKind>(0); }},
    {"absolute bound by row", [](Index& i) { bound_of(i).kind = BoundKind::kAbs; }},
    {"bound of zero", [](Index& i) { bound_of(i).value = 0; }},
    {"bound below zero", [](Index& i) { bound_of(i).value = -1; }},
    {"bound of infinity", [](Index& i) { bound_of(i).value = kInfinity; }},
    {"bound that is no number", [](Index& i) { bound_of(i).value = kInfinity - kInfinity; }},
    {"absolute bound not kept",
     [](Index& i) {
       bound_of(i) = {BoundKind::kAbs, false, 0.2};
     }},
    {"root mean square above the greatest error",
     [](Index& i) { record_of(i, kFirst).error->rmse = 0.3; }},
    {"negative root mean square", [](Index& i) { record_of(i, kFirst).error->rmse = -0.1; }},
    {"infinite error", [](Index& i) { record_of(i, kFirst).error->max_abs_error = kInfinity; }},
    {"offset in the head", [](Index& i) { i.records[kFirst].offset_bytes = 8; }},
    {"offset wraps", [](Index& i) { i.records[kFirst].offset_bytes = ~std::uint64_t{0} - 50; }},
    {"chunk shorter than its header", [](Index& i) { i.chunks[1].n_bytes = 12; }},
    {"empty record with an offset", [](Index& i) { i.records[kNone].offset_bytes = 16; }},
    {"empty record with a chunk length", [](Index& i) { record_of(i, kNone).chunk_elems = 2; }},
    {"empty record with a preamble",
     [](Index& i) {
       i.records[kNone].has_preamble = true;
       i.chunks.push_back({100, 1});
     }},
    {"empty record is packed", [](Index& i) { record_of(i, kNone).kind = RecordKind::kPacked; }},
    {"pack that does not exist", [](Index& i) { i.records[kPackedPlace].pack = 1; }},
    {"payload in the pack's header", [](Index& i) { i.records[kPackedPlace].pack_offset = 11; }},
    {"payload beyond the pack", [](Index& i) { i.records[kPackedPlace].payload_bytes = 31; }},
    {"payload offset wraps",
     [](Index& i) { i.records[kPackedPlace].pack_offset = ~std::uint64_t{0}; }},
    {"no payload", [](Index& i) { i.records[kPackedPlace].payload_bytes = 0; }},
    {"payload too long for a pack",
     [](Index& i) {
       i.packs[0].n_bytes = 100000;
       i.records[kPackedPlace].payload_bytes = 16385;
     }},
    {"packed with a preamble", [](Index& i) { i.records[kPackedPlace].has_preamble = true; }},
    {"pack too large", [](Index& i) { i.packs[0].n_bytes = 131073; }},
    {"pack without contents", [](Index& i) { i.packs[0].n_bytes = 12; }},
    {"base does not exist", [](Index& i) { record_of(i, kAliasPlace).base = 5; }},
    {"alias of itself", [](Index& i) { record_of(i, kAliasPlace).base = 3; }},
    {"alias of a duplicate",
     [](Index& i) {
       record_of(i, kAliasPlace).base = 4;
       record_of(i, kAliasPlace).dtype = DType::kF32;
     }},
    {"duplicate of an alias", [](Index& i) { record_of(i, kCopy).base = 3; }},
    {"alias of another dtype", [](Index& i) { record_of(i, kAliasPlace).dtype = DType::kI8; }},
    {"alias of another codec", [](Index& i) { record_of(i, kAliasPlace).codec = CodecId::kRaw; }},
    {"alias beyond its base", [](Index& i) { record_of(i, kAliasPlace).element_offset = 2; }},
    {"alias offset wraps",
     [](Index& i) { record_of(i, kAliasPlace).element_offset = ~std::uint64_t{0}; }},
    {"alias stride wraps",
     [](Index& i) {
       record_of(i, kAliasPlace).strides = {~std::uint64_t{0}, 2};
     }},
    {"alias reach wraps",
     [](Index& i) {
       record_of(i, kAliasPlace).shape = {std::uint64_t{1} << 30, 2};
       record_of(i, kAliasPlace).strides = {std::uint64_t{1} << 40, 0};
     }},
    {"empty alias",
     [](Index& i) {
       record_of(i, kAliasPlace).shape = {0, 2};
     }},
    {"duplicate of another shape",
     [](Index& i) {
       record_of(i, kCopy).shape = {100, 1};
     }},
    {"duplicate of another digest", [](Index& i) { record_of(i, kCopy).digest[3] ^= 1; }},
    {"raw with an entropy stage",
     [](Index& i) {
       record_of(i, kFirst).codec = record_of(i, kCopy).codec = CodecId::kRaw;
       record_of(i, kFirst).error.reset();
     }},
    {"raw chunk of a wrong length",
     [](Index& i) {
       for (const std::size_t place : {std::size_t{kFirst}, std::size_t{kCopy}}) {
         record_of(i, place).codec = CodecId::kRaw;
         record_of(i, place).entropy = EntropyId::kNone;
       }
       i.records[kFirst].has_preamble = false;
       record_of(i, kFirst).error.reset();
       record_of(i, kFirst).chunk_elems = 25;
     }},
    {"raw payload of a wrong length",
     [](Index& i) {
       for (const std::size_t place : {std::size_t{kPackedPlace}, std::size_t{kAliasPlace}}) {
         record_of(i, place).codec = CodecId::kRaw;
         record_of(i, place).entropy = EntropyId::kNone;
       }
     }},
    {"chunks of nobody", [](Index& i) { i.records.erase(i.records.begin()); }},
};

std::string bad_index_name(const testing::TestParamInfo<BadIndex>& info) {
  std::string name = info.param.what;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Index, BadIndexTest, testing::ValuesIn(kBadIndexes), bad_index_name);

TEST(Index, ReservedBytesMustBeZero) {
  const std::vector<std::byte> good = encoded(sample_index());
  const std::size_t record = 12 + 32;
  // Flags, the bytes after them, and A of a chunked record.
  for (const std::size_t place : {8, 9, 10, 11, 12, 15}) {
    std::vector<std::byte> frame = good;
    frame[record + place] ^= std::byte{0x80};
    EXPECT_EQ(decode_index(frame, kOffset, {}).error().code, ErrorCode::kCorrupt) << place;
  }
}

TEST(Index, ReservedBytesOfErrorsMustBeZero) {
  const Index index = sample_index();
  const std::vector<std::byte> good = encoded(index);
  const std::size_t name_bytes = 5 + 4 + 0 + 5 + 4;
  const std::size_t end = good.size() - name_bytes;
  for (std::size_t place = end - 7; place < end; ++place) {
    std::vector<std::byte> frame = good;
    frame[place] ^= std::byte{2};
    EXPECT_EQ(decode_index(frame, kOffset, {}).error().code, ErrorCode::kCorrupt) << place;
  }
}

TEST(Index, TooManyDimensionsAreRefused) {
  Index index = sample_index();
  record_of(index, kNone).shape = Shape(65, 0);
  EXPECT_EQ(encode_index(index).error().code, ErrorCode::kLimitExceeded);
  record_of(index, kNone).shape = Shape(64, 0);
  std::vector<std::byte> frame = encoded(index);
  ASSERT_TRUE(decode_index(frame, kOffset, {}));
  frame[12 + 32 + 48 + 7] = std::byte{65};
  EXPECT_EQ(decode_index(frame, kOffset, {}).error().code, ErrorCode::kCorrupt);
}

TEST(Index, CountsAreComparedBeforeAnythingIsAllocated) {
  const std::vector<std::byte> good = encoded(sample_index());
  for (const std::size_t place : {12, 16, 20, 28, 36}) {
    for (const std::uint64_t value :
         {std::uint64_t{0}, std::uint64_t{0xFFFFFFFF}, ~std::uint64_t{0}}) {
      std::vector<std::byte> frame = good;
      if (place < 20) {
        store(frame.data() + place, static_cast<std::uint32_t>(value));
      } else {
        store(frame.data() + place, value);
      }
      EXPECT_EQ(decode_index(frame, kOffset, {}).error().code, ErrorCode::kCorrupt);
    }
  }
}

TEST(Index, UnknownIdsAreNoError) {
  Index index = sample_index();
  for (const std::size_t place : {std::size_t{kFirst}, std::size_t{kCopy}}) {
    Record& record = record_of(index, place);
    record.dtype = static_cast<DType>(200);
    record.codec = static_cast<CodecId>(201);
    record.entropy = static_cast<EntropyId>(202);
    record.scan = static_cast<ScanId>(203);
  }
  const Result<Index> decoded = decode_index(encoded(index), kOffset, {});
  ASSERT_TRUE(decoded) << decoded.error().to_string();
  EXPECT_EQ(decoded->records[kFirst].record.decoded_bytes, 0U);
  EXPECT_EQ(decoded->records[kFirst].record.n_elems, 100U);
}

TEST(Index, RecordsAreLimited) {
  Limits limits;
  limits.max_records = 4;
  const Result<Index> decoded = decode_index(encoded(sample_index()), kOffset, limits);
  EXPECT_EQ(decoded.error().code, ErrorCode::kLimitExceeded);
  EXPECT_NE(decoded.error().message.find("max_records"), std::string::npos);
  limits.max_records = 5;
  EXPECT_TRUE(decode_index(encoded(sample_index()), kOffset, limits));
}

// Head 0-16, chunks 16-422, pack 422-464, attachments, META, INDX, TAIL.
struct Layout {
  Tail tail;
  Index index = sample_index();
  MetadataFrame metadata = sample_metadata();

  Layout() {
    index.records[kFirst].offset_bytes = 16;
    index.packs[0].offset_bytes = 422;
    metadata.attachments[0].extent = {464, 20};
    metadata.attachments[1].extent = {484, 21};
    tail = sample_tail();
    tail.metadata.offset_bytes = 505;
    tail.index.offset_bytes = 525;
    tail.file_bytes = 569 + kTailBytes;
  }
  Result<std::uint64_t> check() const { return check_coverage(tail, index, metadata); }
};

TEST(Coverage, WithoutGaps) {
  const Result<std::uint64_t> dead = Layout().check();
  ASSERT_TRUE(dead) << dead.error().to_string();
  EXPECT_EQ(*dead, 0U);
}

TEST(Coverage, OverlapsAndGapsAreRefused) {
  const auto refused = [](const std::function<void(Layout&)>& change) {
    Layout layout;
    change(layout);
    const auto checked = layout.check();
    return !checked && checked.error().code == ErrorCode::kCorrupt;
  };
  EXPECT_TRUE(refused([](Layout& l) { l.index.records[kFirst].offset_bytes = 17; }));
  EXPECT_TRUE(refused([](Layout& l) { l.index.records[kFirst].offset_bytes = 15; }));
  EXPECT_TRUE(refused([](Layout& l) { l.index.records[kFirst].record.stored_bytes -= 1; }));
  EXPECT_TRUE(refused([](Layout& l) { l.index.packs[0].offset_bytes = 464; }));
  EXPECT_TRUE(refused([](Layout& l) { l.index.packs[0].offset_bytes = 100000; }));
  EXPECT_TRUE(refused([](Layout& l) { l.index.packs[0].offset_bytes = ~std::uint64_t{0}; }));
  EXPECT_TRUE(refused([](Layout& l) { l.metadata.attachments[1].extent = {464, 20}; }));
  EXPECT_TRUE(
      refused([](Layout& l) { l.metadata.attachments[1].extent.n_bytes = ~std::uint64_t{0}; }));
  EXPECT_TRUE(refused([](Layout& l) { l.metadata.attachments.pop_back(); }));
  EXPECT_TRUE(refused([](Layout& l) { l.tail.metadata.offset_bytes = 500; }));
  // The pack: its payload must fill it.
  EXPECT_TRUE(refused([](Layout& l) { l.index.records[kPackedPlace].payload_bytes = 29; }));
  EXPECT_TRUE(refused([](Layout& l) { l.index.records[kPackedPlace].pack_offset = 13; }));
  EXPECT_TRUE(refused([](Layout& l) { l.index.records.push_back(l.index.records[kPackedPlace]); }));
}

TEST(Coverage, LaterGenerationsMayHaveGapsButNoOverlap) {
  Layout layout;
  layout.tail.generation = 1;
  layout.tail.previous_file_bytes = 300;
  layout.metadata.attachments.pop_back();
  EXPECT_EQ(layout.check().value(), 21U);
  layout.index.records[kPackedPlace].payload_bytes = 10;
  EXPECT_TRUE(layout.check());
  layout.index.records.push_back(layout.index.records[kPackedPlace]);
  EXPECT_FALSE(layout.check());
  layout.index.records.back().pack_offset = 22;
  EXPECT_TRUE(layout.check());
  layout.index.packs[0].offset_bytes = 421;
  EXPECT_FALSE(layout.check());
}

}  // namespace
}  // namespace cfck::format
