#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/overlap.hpp"
#include "base/run_guarded.hpp"
#include "codec/common/bit_strings.hpp"
#include "codec/common/id_buckets.hpp"
#include "embeddings/dequantise.hpp"
#include "embeddings/layout.hpp"
#include "embeddings/workspace.hpp"

namespace cfck {
namespace embeddings {
namespace {

using codec::kBuckets;
using codec::kBucketStarts;
using codec::kOffsetBits;
using codec::Numbering;

std::size_t row_bytes_of(const RowShape& shape) {
  return std::size_t{shape.row_elems} * (bits_per_element(shape.dtype) / 8);
}

Error at_message(Error error, std::size_t begin) {
  if (error.byte_offset) {
    error.byte_offset = *error.byte_offset + begin;
  }
  return error;
}

// Decodes a message that has at most `n_most` values of a dtype, or exactly so many, and returns
// their number. `allocate` returns memory for as many.
template <class Allocate>
Result<std::uint64_t> decode_part(ByteView part, std::size_t begin, DType dtype,
                                  std::uint64_t n_most, bool exactly, Allocate&& allocate,
                                  MessageWorkspace& workspace) {
  const auto info = message_info(part);
  if (!info) {
    return at_message(info.error(), begin);
  }
  const std::uint64_t n = info->n_elems;
  if (info->dtype != dtype || info->shape.size() != 1 || n > n_most || (exactly && n < n_most)) {
    return corrupt("a message of the packet of rows has another dtype or length than it must have")
        .at_byte(begin);
  }
  if (auto done = decode_message(part, allocate(n), workspace); !done) {
    return at_message(std::move(done).error(), begin);
  }
  return n;
}

// Numbers that codes and buckets stand for.
bool is_integer_below(float value, float limit) { return std::abs(value) <= limit; }

class PacketDecoder {
 public:
  PacketDecoder(const Packet& packet, std::span<const DecodedRows> batches,
                RowWorkspace::Memory& memory)
      : packet_(packet), batches_(batches), memory_(memory), bits_(packet.bits) {}

  Result<void> decode() {
    CFCK_TRY(check_batches());
    CFCK_TRY(decode_integers());
    memory_.numberings.resize(std::max<std::size_t>(memory_.numberings.size(), batches_.size()));
    std::size_t exact_at = 0;
    for (std::uint32_t i = 0; i < packet_.batches.size(); ++i) {
      const BatchHeader& batch = packet_.batches[i];
      CFCK_TRY(read_marks(batch));
      CFCK_TRY(number_rows(i, batch));
      CFCK_TRY(decode_batch(i, batch, exact_at));
      exact_at += batch.exact_bytes;
    }
    if (next_bucket_ != memory_.buckets.size() || bits_.position() != packet_.bits.size() ||
        !bits_.rest_is_zero()) {
      return bad_ids();
    }
    return {};
  }

 private:
  Error bad_ids() const {
    return corrupt("the ids of the packet of rows are not those of its table")
        .at_byte(packet_.buckets_at());
  }

  Result<void> check_batches() const {
    if (batches_.size() != packet_.batches.size()) {
      return invalid_argument("the packet has " + std::to_string(packet_.batches.size()) +
                              " batches of rows, and " + std::to_string(batches_.size()) +
                              " were given");
    }
    for (std::uint32_t i = 0; i < packet_.batches.size(); ++i) {
      const RowShape shape = packet_.batches[i].shape;
      const std::uint64_t n_bytes = std::uint64_t{shape.n_rows} * row_bytes_of(shape);
      const std::uint64_t n_keys = shape.needs_keys ? shape.n_rows : 0;
      if (batches_[i].values.size() != n_bytes) {
        return invalid_argument("batch " + std::to_string(i) + " of the packet of rows takes " +
                                std::to_string(n_bytes) + " bytes, and there is space for " +
                                std::to_string(batches_[i].values.size()));
      }
      if (batches_[i].keys.size() != n_keys) {
        return invalid_argument("batch " + std::to_string(i) + " of the packet of rows needs " +
                                std::to_string(n_keys) + " keys, and " +
                                std::to_string(batches_[i].keys.size()) + " were given");
      }
    }
    return {};
  }

  // Decodes buckets and codes.
  Result<void> decode_integers() {
    std::uint64_t n_ids = 0;
    std::uint64_t n_codes = 0;
    for (std::uint32_t i = 0; i < packet_.batches.size(); ++i) {
      const BatchHeader& batch = packet_.batches[i];
      n_ids += batch.has_ids() ? batch.shape.n_rows : 0;
      n_codes += batch.n_coded_elems();
    }
    CFCK_TRY(decode_floats(packet_.buckets, packet_.buckets_at(), n_ids, false, memory_.buckets));
    return decode_floats(packet_.codes, packet_.codes_at(), n_codes, true, memory_.codes);
  }

  Result<void> decode_floats(ByteView part, std::size_t begin, std::uint64_t n_most, bool exactly,
                             std::vector<float>& floats) {
    floats.clear();
    if (part.empty()) return {};
    const auto allocate = [&](std::uint64_t n) {
      floats.resize(n);
      return std::as_writable_bytes(std::span(floats));
    };
    CFCK_TRY(decode_part(part, begin, DType::kF32, n_most, exactly, allocate, memory_.messages));
    return {};
  }

  // Which of the rows that are sent are exact.
  Result<void> read_marks(const BatchHeader& batch) {
    memory_.marks.assign(batch.shape.n_unique, batch.n_exact != 0 ? 1 : 0);
    if (!batch.has_marks()) return {};
    std::uint32_t n_exact = 0;
    for (std::uint8_t& mark : memory_.marks) {
      mark = static_cast<std::uint8_t>(bits_.take(1));
      n_exact += mark;
    }
    if (n_exact != batch.n_exact) {
      return corrupt("the packet of rows marks another number of exact rows than its table says")
          .at_byte(packet_.bits_at());
    }
    return {};
  }

  Result<void> number_rows(std::uint32_t i, const BatchHeader& batch) {
    Numbering& rows = memory_.numberings[i];
    switch (batch.order) {
      case RowOrder::kPlain:
        return {};
      case RowOrder::kKeys:
        memory_.finder.number_keys(batches_[i].keys, rows);
        if (rows.n_unique() != batch.shape.n_unique) {
          return invalid_argument("batch " + std::to_string(i) + " of the packet has " +
                                  std::to_string(batch.shape.n_unique) +
                                  " different rows, and its keys have " +
                                  std::to_string(rows.n_unique()) + " different values");
        }
        return {};
      case RowOrder::kIds:
        rows.number.resize(batch.shape.n_rows);
        for (std::uint32_t& number : rows.number) {
          CFCK_TRY_ASSIGN(number, read_id(batch));
        }
        return {};
      case RowOrder::kFollowing:
        return follow(batch, rows);
    }
    return {};
  }

  Result<void> follow(const BatchHeader& batch, Numbering& rows) {
    constexpr std::uint32_t kNone = ~std::uint32_t{0};
    const Numbering& leader = memory_.numberings[batch.leader];
    memory_.followed.assign(packet_.batches[batch.leader].shape.n_unique, kNone);
    rows.number.resize(batch.shape.n_rows);
    for (std::uint32_t row = 0; row < batch.shape.n_rows; ++row) {
      std::uint32_t& known = memory_.followed[leader.number[row]];
      if (known == kNone) {
        CFCK_TRY_ASSIGN(known, read_id(batch));
      }
      rows.number[row] = known;
    }
    return {};
  }

  Result<std::uint32_t> read_id(const BatchHeader& batch) {
    if (next_bucket_ == memory_.buckets.size()) return bad_ids();
    const float rounded = std::nearbyint(memory_.buckets[next_bucket_++]);
    if (!(rounded >= -float{kBuckets / 2} && rounded < float{kBuckets / 2})) return bad_ids();
    const int half = static_cast<int>(rounded);
    const auto bucket = static_cast<unsigned>(half >= 0 ? 2 * half : -2 * half - 1);
    const std::uint32_t id = kBucketStarts[bucket] + bits_.take(kOffsetBits[bucket]);
    if (id >= batch.shape.n_unique) return bad_ids();
    return id;
  }

  Result<void> decode_batch(std::uint32_t i, const BatchHeader& batch, std::size_t exact_at) {
    const std::size_t row_bytes = row_bytes_of(batch.shape);
    MutableBytes unique = batches_[i].values;
    if (batch.order != RowOrder::kPlain) {
      memory_.values.resize(batch.shape.n_unique * row_bytes);
      unique = memory_.values;
    }
    CFCK_TRY(decode_exact_rows(batch, exact_at));
    CFCK_TRY(fill_rows(batch, unique.data()));
    if (batch.order == RowOrder::kPlain || row_bytes == 0) return {};
    std::byte* to = batches_[i].values.data();
    for (const std::uint32_t number : memory_.numberings[i].number) {
      std::memcpy(to, unique.data() + number * row_bytes, row_bytes);
      to += row_bytes;
    }
    return {};
  }

  Result<void> decode_exact_rows(const BatchHeader& batch, std::size_t exact_at) {
    if (batch.n_exact == 0) return {};
    const auto allocate = [&](std::uint64_t n) {
      memory_.exact.resize(n * (bits_per_element(batch.shape.dtype) / 8));
      return MutableBytes(memory_.exact);
    };
    CFCK_TRY(decode_part(packet_.exact.subspan(exact_at, batch.exact_bytes),
                         packet_.exact_at() + exact_at, batch.shape.dtype, batch.n_exact_elems(),
                         true, allocate, memory_.messages));
    return {};
  }

  // Puts the rows that are sent where they belong.
  Result<void> fill_rows(const BatchHeader& batch, std::byte* to) {
    const std::size_t row_bytes = row_bytes_of(batch.shape);
    const std::byte* exact = memory_.exact.data();
    bool is_valid = true;
    with_value_type(batch.shape.dtype, [&](auto value) {
      using Value = decltype(value);
      for (const std::uint8_t is_exact : memory_.marks) {
        if (is_exact != 0) {
          if (row_bytes != 0) std::memcpy(to, exact, row_bytes);
          exact += row_bytes;
        } else {
          is_valid &= fill_row<Value>(batch, to);
        }
        to += row_bytes;
      }
    });
    if (!is_valid) {
      return corrupt("a code of the packet of rows is out of range").at_byte(packet_.codes_at());
    }
    return {};
  }

  template <class Value>
  bool fill_row(const BatchHeader& batch, std::byte* to) {
    constexpr float kRounder = 0x1.8p23F;  // as in quantise.cpp, for binary32 below 2^22
    using Word = typename Value::Word;
    const float* const codes = memory_.codes.data() + next_code_;
    next_code_ += batch.shape.row_elems;
    bool is_valid = true;
    for (std::uint32_t e = 0; e < batch.shape.row_elems; ++e) {
      is_valid &= is_integer_below(codes[e], static_cast<float>(kMaxCode));
      const float code = (codes[e] + kRounder) - kRounder;
      store<Word>(to + e * sizeof(Word), value_of_code<Value>(code, batch.step));
    }
    return is_valid;
  }

  const Packet& packet_;
  const std::span<const DecodedRows> batches_;
  RowWorkspace::Memory& memory_;
  codec::BitReader bits_;
  std::size_t next_bucket_ = 0;
  std::size_t next_code_ = 0;
};

}  // namespace
}  // namespace embeddings

RowWorkspace::RowWorkspace() noexcept = default;
RowWorkspace::~RowWorkspace() = default;
RowWorkspace::RowWorkspace(RowWorkspace&&) noexcept = default;
RowWorkspace& RowWorkspace::operator=(RowWorkspace&&) noexcept = default;

Result<std::vector<RowShape>> row_packet_shapes(ByteView packet) {
  return detail::run_guarded([&]() -> Result<std::vector<RowShape>> {
    CFCK_TRY_ASSIGN(const embeddings::Packet parts, embeddings::read_packet(packet));
    std::vector<RowShape> shapes;
    shapes.reserve(parts.batches.size());
    for (std::uint32_t i = 0; i < parts.batches.size(); ++i) {
      shapes.push_back(parts.batches[i].shape);
    }
    return shapes;
  });
}

Result<void> decode_rows(ByteView packet, std::span<const DecodedRows> batches,
                         RowWorkspace& workspace) {
  return detail::run_guarded([&]() -> Result<void> {
    CFCK_TRY_ASSIGN(const embeddings::Packet parts, embeddings::verify_packet(packet));
    for (const DecodedRows& batch : batches) {
      CFCK_TRY(check_apart(batch.values, packet, "the packet"));
      for (const DecodedRows& other : batches) {
        CFCK_TRY(check_apart(batch.values, std::as_bytes(other.keys), "the keys"));
      }
    }
    return embeddings::PacketDecoder(parts, batches, RowMemory::of(workspace)).decode();
  });
}

}  // namespace cfck
