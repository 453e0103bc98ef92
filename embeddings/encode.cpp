#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"
#include "base/overlap.hpp"
#include "base/run_guarded.hpp"
#include "codec/common/bit_strings.hpp"
#include "codec/common/id_buckets.hpp"
#include "embeddings/layout.hpp"
#include "embeddings/signed_buckets.hpp"
#include "embeddings/workspace.hpp"

namespace cfck {
namespace embeddings {
namespace {

using codec::are_equal;
using codec::kBucketStarts;
using codec::kOffsetBits;
using codec::Numbering;

constexpr std::uint64_t kMostElems = std::numeric_limits<std::uint32_t>::max() / 8;
// Two things take time beside bytes on the wire: an id to be counted, coded and followed, and a
// value to be coded and decoded, on a core of 2024.
constexpr double kSecondsPerId = 25e-9;
constexpr double kSecondsPerCode = 4e-9;

std::size_t row_bytes_of(const RowBatch& batch) {
  return std::size_t{batch.row_elems} * (bits_per_element(batch.dtype) / 8);
}

Error wrong_batch(std::size_t number, const std::string& what) {
  return invalid_argument("batch " + std::to_string(number) + " of the packet of rows " + what);
}

Result<void> check_batch(const RowBatch& batch, std::size_t number) {
  if (batch.dtype != DType::kF32 && batch.dtype != DType::kF16 && batch.dtype != DType::kBF16) {
    return wrong_batch(number, "has dtype " + std::string(dtype_name(batch.dtype)) +
                                   ", and rows have F32, F16 or BF16");
  }
  if (batch.n_rows > kMaxBatchRows) {
    return limit_exceeded("batch " + std::to_string(number) + " has " +
                          std::to_string(batch.n_rows) + " rows, and at most " +
                          std::to_string(kMaxBatchRows) + " are sent at once; split it");
  }
  if (batch.values.size() != batch.n_rows * row_bytes_of(batch)) {
    return wrong_batch(number, "has " + std::to_string(batch.values.size()) + " bytes, and not " +
                                   std::to_string(batch.n_rows) + " rows of " +
                                   std::to_string(row_bytes_of(batch)));
  }
  if (!batch.keys.empty() && batch.keys.size() != batch.n_rows) {
    return wrong_batch(number, "has " + std::to_string(batch.keys.size()) + " keys for " +
                                   std::to_string(batch.n_rows) + " rows");
  }
  if (!(batch.max_abs_error >= 0 && std::isfinite(batch.max_abs_error))) {
    return wrong_batch(number, "has a max_abs_error that is negative or not finite");
  }
  return {};
}

Result<std::uint64_t> most_bytes(std::span<const RowBatch> batches) {
  if (batches.size() > std::numeric_limits<std::uint16_t>::max()) {
    return limit_exceeded("a packet has at most 65535 batches of rows");
  }
  std::uint64_t n_rows = 0;
  std::uint64_t n_elems = 0;
  std::uint64_t n_bytes = kHeaderBytes + kMostBatchBytes * batches.size() + kHashBytes;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    CFCK_TRY(check_batch(batches[i], i));
    n_rows += batches[i].n_rows;
    const std::uint64_t of_batch = std::uint64_t{batches[i].n_rows} * batches[i].row_elems;
    n_elems += of_batch;
    if (n_elems > kMostElems || n_rows > kMostElems) {
      return limit_exceeded("a packet has at most " + std::to_string(kMostElems) +
                            " values; make several packets");
    }
    CFCK_TRY_ASSIGN(const std::uint64_t of_exact,
                    max_message_bytes(MessageOptions(), batches[i].dtype, {of_batch}));
    n_bytes += of_exact;
  }
  CFCK_TRY_ASSIGN(const std::uint64_t of_buckets,
                  max_message_bytes(MessageOptions(), DType::kF32, {n_rows}));
  CFCK_TRY_ASSIGN(const std::uint64_t of_codes,
                  max_message_bytes(MessageOptions(), DType::kF32, {n_elems}));
  return n_bytes + of_buckets + of_codes + 3 * n_rows + 8;  // bits: a mark and 21 more for a row
}

class PacketEncoder {
 public:
  PacketEncoder(std::span<const RowBatch> batches, const RowPacketOptions& options,
                MutableBytes out, RowWorkspace::Memory& memory)
      : batches_(batches), options_(options), out_(out), memory_(memory), bits_(memory.bits) {}

  Result<std::uint64_t> encode() {
    memory_.numberings.resize(std::max(memory_.numberings.size(), batches_.size()));
    memory_.buckets.clear();
    memory_.codes.clear();
    memory_.bits.clear();
    memory_.exact.clear();
    headers_.resize(batches_.size());
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      CFCK_TRY(add_batch(i));
    }
    bits_.finish();
    return write();
  }

 private:
  Result<void> add_batch(std::size_t i) {
    const RowBatch& batch = batches_[i];
    BatchHeader& header = headers_[i];
    header.shape = {batch.dtype, batch.n_rows, batch.row_elems, 0, !batch.keys.empty()};
    Numbering& rows = memory_.numberings[i];
    CFCK_TRY(number(i, rows));
    quantise(batch, rows);
    if (batch.keys.empty() && batch.max_abs_error > 0) {
      merge(batch, rows);
    }
    header.order = order_of(batch, rows);
    if (header.order == RowOrder::kPlain) {
      make_plain(rows);
    }
    if (header.order == RowOrder::kIds) {
      find_leader(i);
      sort_by_count(i);
    }
    header.shape.n_unique = rows.n_unique();
    return put_rows(i);
  }

  // Gives rows that are equal the same number.
  Result<void> number(std::size_t i, Numbering& rows) {
    const RowBatch& batch = batches_[i];
    const std::size_t row_bytes = row_bytes_of(batch);
    if (batch.keys.empty()) {
      memory_.finder.number_rows(batch.values.data(), batch.n_rows, row_bytes, rows);
      return {};
    }
    memory_.finder.number_keys(batch.keys, rows);
    for (std::uint32_t row = 0; row < batch.n_rows; ++row) {
      const std::uint32_t first = rows.first[rows.number[row]];
      if (!are_equal(batch.values.data() + row * row_bytes, batch.values.data() + first * row_bytes,
                     row_bytes)) {
        return wrong_batch(i, "has rows " + std::to_string(first) + " and " + std::to_string(row) +
                                  " with equal keys that differ");
      }
    }
    return {};
  }

  // Fills memory_.quantised, by number of the row; code_rows_ says where a number has its codes.
  void quantise(const RowBatch& batch, const Numbering& rows) {
    if (batch.max_abs_error > 0) {
      quantise_rows(batch.dtype, batch.values.data(), rows.first, batch.row_elems,
                    batch.max_abs_error, memory_.quantised);
    } else {
      memory_.quantised.exact.assign(rows.n_unique(), 1);
      memory_.quantised.step = 0;
    }
    code_rows_.resize(rows.n_unique());
    std::iota(code_rows_.begin(), code_rows_.end(), 0U);
  }

  // Rows with the same codes become one. Exact ones get codes that no other row has: a NaN with
  // their number.
  void merge(const RowBatch& batch, Numbering& rows) {
    QuantisedRows& quantised = memory_.quantised;
    if (batch.row_elems == 0) return;
    for (std::uint32_t number = 0; number < rows.n_unique(); ++number) {
      if (quantised.exact[number] != 0) {
        quantised.codes[std::size_t{number} * batch.row_elems] =
            std::bit_cast<float>(0x7fc00000U | number);
      }
    }
    Numbering& merged = memory_.merged;
    memory_.finder.number_rows(std::as_bytes(std::span(quantised.codes)).data(), rows.n_unique(),
                               batch.row_elems * sizeof(float), merged);
    if (merged.n_unique() == rows.n_unique()) return;
    for (std::uint32_t& number : rows.number) {
      number = merged.number[number];
    }
    for (std::uint32_t number = 0; number < merged.n_unique(); ++number) {
      rows.first[number] = rows.first[merged.first[number]];
    }
    rows.first.resize(merged.n_unique());
    code_rows_ = merged.first;
  }

  // Whether ids pay: the time that rows would take which are not sent, against that of ids.
  RowOrder order_of(const RowBatch& batch, const Numbering& rows) const {
    if (!batch.keys.empty()) return RowOrder::kKeys;
    if (rows.n_unique() == batch.n_rows) return RowOrder::kPlain;
    const double n_equal = double(batch.n_rows) - rows.n_unique();
    const double saved_bits =
        n_equal * bits_per_row(batch, rows) - batch.n_rows * std::log2(rows.n_unique() + 1.0);
    const double saved_seconds =
        saved_bits / 8 / options_.bytes_per_second + n_equal * batch.row_elems * kSecondsPerCode;
    return saved_seconds > batch.n_rows * kSecondsPerId ? RowOrder::kIds : RowOrder::kPlain;
  }

  // Estimates what a row takes, from some of them: a code takes its bits, and one for its sign.
  double bits_per_row(const RowBatch& batch, const Numbering& rows) const {
    constexpr std::uint32_t kSampled = 32;
    const QuantisedRows& quantised = memory_.quantised;
    const std::uint32_t step = rows.n_unique() / kSampled + 1;
    std::uint64_t bits = 0;
    std::uint32_t n = 0;
    for (std::uint32_t number = 0; number < rows.n_unique(); number += step, ++n) {
      const std::size_t row = code_rows_[number];
      if (quantised.exact[row] != 0) {
        bits += 6 * row_bytes_of(batch);
        continue;
      }
      for (std::uint32_t e = 0; e < batch.row_elems; ++e) {
        const float code = std::abs(quantised.codes[row * batch.row_elems + e]);
        bits += 1 + static_cast<unsigned>(std::bit_width(static_cast<std::uint32_t>(code)));
      }
    }
    return n == 0 ? 0 : static_cast<double>(bits) / n;
  }

  // Each row becomes one of its own again.
  void make_plain(Numbering& rows) {
    if (rows.n_unique() == rows.number.size()) return;
    std::vector<std::uint32_t> of_rows(rows.number.size());
    rows.first.resize(rows.number.size());
    for (std::uint32_t row = 0; row < rows.number.size(); ++row) {
      of_rows[row] = code_rows_[rows.number[row]];
      rows.number[row] = rows.first[row] = row;
    }
    code_rows_ = std::move(of_rows);
  }

  // Looks for the earlier batch with the fewest rows whose row says which one this batch has.
  void find_leader(std::size_t i) {
    const Numbering& rows = memory_.numberings[i];
    std::uint32_t fewest = batches_[i].n_rows;  // a leader with more would save nothing
    for (std::size_t j = 0; j < i; ++j) {
      const Numbering& others = memory_.numberings[j];
      if (headers_[j].order == RowOrder::kPlain || batches_[j].n_rows != batches_[i].n_rows ||
          others.n_unique() < rows.n_unique() || others.n_unique() >= fewest) {
        continue;
      }
      if (follows(rows, others)) {
        fewest = others.n_unique();
        headers_[i].order = RowOrder::kFollowing;
        headers_[i].leader = static_cast<std::uint32_t>(j);
      }
    }
  }

  bool follows(const Numbering& rows, const Numbering& others) {
    constexpr std::uint32_t kNone = ~std::uint32_t{0};
    memory_.followed.assign(others.n_unique(), kNone);
    for (std::size_t row = 0; row < rows.number.size(); ++row) {
      std::uint32_t& known = memory_.followed[others.number[row]];
      if (known == kNone) {
        known = rows.number[row];
      } else if (known != rows.number[row]) {
        return false;
      }
    }
    return true;
  }

  // Calls `visit` with the rows whose ids are sent, in order.
  template <class Visit>
  void each_sent_id(std::size_t i, Visit&& visit) {
    const Numbering& rows = memory_.numberings[i];
    if (headers_[i].order == RowOrder::kIds) {
      for (const std::uint32_t number : rows.number) visit(number);
    } else if (headers_[i].order == RowOrder::kFollowing) {
      // The first row of each number of the leader, which ascend only where numbers are as they
      // were found.
      const Numbering& leader = memory_.numberings[headers_[i].leader];
      memory_.marks.assign(leader.n_unique(), 0);
      for (std::size_t row = 0; row < rows.number.size(); ++row) {
        std::uint8_t& is_known = memory_.marks[leader.number[row]];
        if (is_known == 0) visit(rows.number[row]);
        is_known = 1;
      }
    }
  }

  // Numbers rows anew: those that are sent most often first.
  void sort_by_count(std::size_t i) {
    Numbering& rows = memory_.numberings[i];
    memory_.counts.assign(rows.n_unique(), 0);
    each_sent_id(i, [&](std::uint32_t number) { ++memory_.counts[number]; });
    std::vector<std::uint32_t>& order = memory_.order;
    order.resize(rows.n_unique());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return memory_.counts[a] > memory_.counts[b];
    });
    std::vector<std::uint32_t> first(order.size());
    std::vector<std::uint32_t> code_rows(order.size());
    for (std::uint32_t id = 0; id < order.size(); ++id) {
      first[id] = rows.first[order[id]];
      code_rows[id] = code_rows_[order[id]];
      memory_.counts[order[id]] = id;  // no count is needed any more
    }
    for (std::uint32_t& number : rows.number) {
      number = memory_.counts[number];
    }
    rows.first = std::move(first);
    code_rows_ = std::move(code_rows);
  }

  // Appends a batch to the parts of the packet.
  Result<void> put_rows(std::size_t i) {
    const RowBatch& batch = batches_[i];
    BatchHeader& header = headers_[i];
    const Numbering& rows = memory_.numberings[i];
    const QuantisedRows& quantised = memory_.quantised;
    memory_.values.clear();
    header.n_exact = 0;
    for (std::uint32_t number = 0; number < rows.n_unique(); ++number) {
      const std::size_t row = code_rows_[number];
      if (quantised.exact[row] == 0) {
        const auto codes = quantised.codes.begin() + row * batch.row_elems;
        memory_.codes.insert(memory_.codes.end(), codes, codes + batch.row_elems);
        continue;
      }
      ++header.n_exact;
      const std::byte* const values =
          batch.values.data() + rows.first[number] * row_bytes_of(batch);
      memory_.values.insert(memory_.values.end(), values, values + row_bytes_of(batch));
    }
    header.step = header.n_exact == rows.n_unique() ? 0 : quantised.step;
    put_bits(i);
    return put_exact_rows(i);
  }

  void put_bits(std::size_t i) {
    if (headers_[i].has_marks()) {
      for (std::uint32_t number = 0; number < headers_[i].shape.n_unique; ++number) {
        bits_.put(memory_.quantised.exact[code_rows_[number]], 1);
      }
    }
    if (!headers_[i].has_ids()) return;
    std::vector<std::uint8_t>& buckets = memory_.bucket_of_id;
    buckets.resize(headers_[i].shape.n_unique);
    for (unsigned bucket = 0, id = 0; id < buckets.size(); ++id) {
      bucket += id == kBucketStarts[bucket + 1] ? 1 : 0;
      buckets[id] = static_cast<std::uint8_t>(bucket);
    }
    each_sent_id(i, [&](std::uint32_t id) {
      const unsigned bucket = buckets[id];
      memory_.buckets.push_back(kSignedBuckets[bucket]);
      bits_.put(id - kBucketStarts[bucket], kOffsetBits[bucket]);
    });
  }

  Result<void> put_exact_rows(std::size_t i) {
    BatchHeader& header = headers_[i];
    header.exact_bytes = 0;
    if (header.n_exact == 0) return {};
    const Shape shape{header.n_exact_elems()};
    MessageOptions options;
    options.level = options_.level;
    CFCK_TRY_ASSIGN(const std::uint64_t most,
                    max_message_bytes(options, header.shape.dtype, shape));
    const std::size_t at = memory_.exact.size();
    memory_.exact.resize(at + most);
    const TensorView view{header.shape.dtype, shape, memory_.values, {}};
    CFCK_TRY_ASSIGN(
        const std::uint64_t n_bytes,
        encode_message(view, options, MutableBytes(memory_.exact).subspan(at), memory_.messages));
    memory_.exact.resize(at + n_bytes);
    header.exact_bytes = static_cast<std::uint32_t>(n_bytes);
    return {};
  }

  // Encodes integers as a message at `at` of the packet; returns its length.
  Result<std::uint32_t> put_integers(std::vector<float>& integers, std::size_t at) {
    if (integers.empty()) return 0U;
    for (float& integer : integers) {
      integer = integer == 0 ? kZero : integer;
    }
    MessageOptions options;
    options.level = options_.level;
    options.codec = CodecChoice::kDirect;
    options.max_abs_error = kCodeError;
    const TensorView view{DType::kF32, {integers.size()}, std::as_bytes(std::span(integers)), {}};
    CFCK_TRY_ASSIGN(const std::uint64_t n_bytes,
                    encode_message(view, options, out_.subspan(at), memory_.messages));
    return static_cast<std::uint32_t>(n_bytes);
  }

  std::size_t put_bytes(const std::vector<std::byte>& bytes, std::size_t at) {
    if (!bytes.empty()) std::memcpy(out_.data() + at, bytes.data(), bytes.size());
    return at + bytes.size();
  }

  Result<std::uint64_t> write() {
    memory_.table.clear();
    for (const BatchHeader& header : headers_) {
      append_batch(header, memory_.table);
    }
    PartBytes parts;
    parts.table = static_cast<std::uint32_t>(memory_.table.size());
    std::size_t at = put_bytes(memory_.table, kHeaderBytes);
    CFCK_TRY_ASSIGN(parts.buckets, put_integers(memory_.buckets, at));
    at = put_bytes(memory_.bits, at + parts.buckets);
    parts.bits = static_cast<std::uint32_t>(memory_.bits.size());
    CFCK_TRY_ASSIGN(parts.codes, put_integers(memory_.codes, at));
    at = put_bytes(memory_.exact, at + parts.codes);
    parts.exact = static_cast<std::uint32_t>(memory_.exact.size());
    write_header(parts, out_.data());
    store<std::uint64_t>(out_.data() + at, detail::tiled_hash64(out_.first(at)));
    return at + kHashBytes;
  }

  const std::span<const RowBatch> batches_;
  const RowPacketOptions& options_;
  const MutableBytes out_;
  RowWorkspace::Memory& memory_;
  codec::BitWriter bits_;
  std::vector<BatchHeader> headers_;
  std::vector<std::uint32_t> code_rows_;  // of the batch that is being added, by number
};

}  // namespace
}  // namespace embeddings

Result<std::uint64_t> max_row_packet_bytes(std::span<const RowBatch> batches) {
  return detail::run_guarded([&] { return embeddings::most_bytes(batches); });
}

Result<std::uint64_t> encode_rows(std::span<const RowBatch> batches,
                                  const RowPacketOptions& options, MutableBytes out,
                                  RowWorkspace& workspace) {
  return detail::run_guarded([&]() -> Result<std::uint64_t> {
    if (!(options.bytes_per_second > 0)) {
      return invalid_argument("bytes_per_second is a positive number");
    }
    CFCK_TRY_ASSIGN(const std::uint64_t most, embeddings::most_bytes(batches));
    if (out.size() < most) {
      return invalid_argument("the packet may take " + std::to_string(most) +
                              " bytes, and there is space for " + std::to_string(out.size()) +
                              "; ask max_row_packet_bytes()");
    }
    for (const RowBatch& batch : batches) {
      CFCK_TRY(check_apart(out.first(most), batch.values, "the rows"));
      CFCK_TRY(check_apart(out.first(most), std::as_bytes(batch.keys), "the keys"));
    }
    return embeddings::PacketEncoder(batches, options, out, RowMemory::of(workspace)).encode();
  });
}

}  // namespace cfck
