// The one decision between candidates, and the numbers it is made of.
#include "encode/trial/choose_candidate.hpp"

#include <gtest/gtest.h>

#include <array>

#include "codec/frame_costs.hpp"

namespace cfck::encode {
namespace {

using State = LosslessOrRaw::State;

constexpr FrameCosts kCosts = {
    .header_bytes = 12, .max_packed_payload_bytes = 100, .max_raw_frame_bytes = 1000};

// Chunks of 400 bytes, the last may be shorter.
ChunkGeometry geometry(std::uint64_t n_bytes) {
  return codec::chunk_geometry(DType::kU8, n_bytes, n_bytes, 400);
}

TEST(ChooseCandidate, FewestBytesAndTheFirstOfEqual) {
  EXPECT_EQ(choose_candidate(std::array<std::uint64_t, 1>{7}), 0U);
  EXPECT_EQ(choose_candidate(std::array<std::uint64_t, 3>{7, 5, 6}), 1U);
  EXPECT_EQ(choose_candidate(std::array<std::uint64_t, 3>{5, 6, 5}), 0U);
}

TEST(FrameCosts, PackedChunksNeedNoHeader) {
  EXPECT_EQ(kCosts.chunk(geometry(300), 100), 100U);
  EXPECT_EQ(kCosts.chunk(geometry(300), 101), 113U);
  EXPECT_EQ(kCosts.chunk(geometry(500), 100), 112U);
}

TEST(FrameCosts, RawFramesHoldSeveralChunks) {
  EXPECT_EQ(kCosts.raw(geometry(90)), 90U);
  EXPECT_EQ(kCosts.raw(geometry(300)), 312U);
  EXPECT_EQ(kCosts.raw(geometry(800)), 812U);
  EXPECT_EQ(kCosts.raw(geometry(801)), 825U);
}

TEST(RecordSize, CountsPreambleAndHeaders) {
  const RecordSize lossy = {CodecId::kDirect, 20, {10, 30}};
  EXPECT_EQ(lossy.stored_bytes(geometry(800), kCosts), 32U + 22U + 42U);
  const RecordSize raw = {CodecId::kRaw, 0, {}};
  EXPECT_EQ(raw.stored_bytes(geometry(800), kCosts), 812U);
}

TEST(LosslessOrRaw, IsSureAsSoonAsTheRestCannotChangeIt) {
  LosslessOrRaw early(geometry(1200), kCosts);
  early.add_chunk(390);  // the others may still take all they have, and headers
  EXPECT_EQ(early.state(), State::kUndecided);
  early.add_chunk(10);
  EXPECT_EQ(early.state(), State::kLossless);
  EXPECT_EQ(early.n_chunks_seen(), 2U);
}

TEST(LosslessOrRaw, RawWinsWhereBothTakeTheSame) {
  LosslessOrRaw equal(geometry(800), kCosts);
  equal.add_chunk(400);
  equal.add_chunk(388);
  EXPECT_EQ(equal.state(), State::kRaw);
  LosslessOrRaw smaller(geometry(800), kCosts);
  smaller.add_chunk(400);
  smaller.add_chunk(387);
  EXPECT_EQ(smaller.state(), State::kLossless);
}

TEST(LosslessOrRaw, DecidesAtOnceWhereTheSizeIsKnown) {
  LosslessOrRaw known(geometry(800), kCosts);
  known.decide(812);
  EXPECT_EQ(known.state(), State::kRaw);
}

}  // namespace
}  // namespace cfck::encode
