#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <utility>

#include "base/cpu/float_environment.hpp"
#include "codec/rows/dictionary.hpp"
#include "codec/rows/errors.hpp"
#include "codec/rows/numbers.hpp"
#include "codec/rows/rows.hpp"

namespace cfck::codec {
namespace {

const LossyEncoder& direct() { return *find_lossy_encoder(CodecId::kDirect); }

// Has what chunks of the other codec are decoded to.
struct DecodedScratch {
  std::vector<std::byte> different;
  std::vector<std::byte> merged;
};

// A chunk of a record whose bound is absolute.
class LossyChunk {
 public:
  LossyChunk(const LossyRecord& record, const ChunkInfo& info, ByteView values, Scratch& scratch,
             MutableBytes decoded, EncodedChunk& out)
      : record_(record),
        info_(info),
        rows_(row_geometry(info)),
        values_(values),
        scratch_(scratch),
        memory_(scratch.part<DictionaryScratch>()),
        of_parts_(scratch.part<DecodedScratch>()),
        decoded_(decoded),
        out_(out) {}

  // Returns how many values were kept bit for bit.
  Result<std::uint64_t> encode() {
    CFCK_TRY_ASSIGN(const std::optional<std::uint64_t> n_exact, try_dictionary());
    if (n_exact && is_sure(n_different_, rows_->n_rows)) {
      return *n_exact;
    }
    OtherChunk& whole = memory_.whole;
    std::vector<std::byte> decoded(values_.size());
    CFCK_TRY_ASSIGN(const std::uint64_t n_exact_of_whole,
                    encode_tensor(OwnTensor(info_), values_, decoded, whole));
    EncodedChunk& encoded = memory_.bucket_chunk;
    encode_other(whole, encoded);
    if (n_exact && out_.payload.size() <= encoded.payload.size()) {
      return *n_exact;
    }
    std::swap(out_, encoded);
    std::copy(decoded.begin(), decoded.end(), decoded_.begin());
    return n_exact_of_whole;
  }

 private:
  // Makes a dictionary if enough rows are equal.
  Result<std::optional<std::uint64_t>> try_dictionary() {
    if (!rows_) {
      return std::optional<std::uint64_t>();
    }
    memory_.finder.number_rows(values_.data(), static_cast<std::uint32_t>(rows_->n_rows),
                               rows_->row_bytes, memory_.rows);
    std::uint32_t n_repeated = arrange(memory_.rows, memory_);
    CFCK_TRY_ASSIGN(std::uint64_t n_exact,
                    encode_rows(memory_.rows, of_parts_.different, memory_.different_chunk));
    const Numbering* numbering = &memory_.rows;
    const OtherChunk* other = &memory_.different_chunk;
    const std::vector<std::byte>* decoded = &of_parts_.different;
    if (plan_ != nullptr && find_merged_rows()) {
      const std::uint32_t n_repeated_of_merged = arrange(memory_.merged, memory_);
      CFCK_TRY_ASSIGN(const std::optional<std::uint64_t> n_exact_of_merged, encode_merged_rows());
      if (n_exact_of_merged) {
        numbering = &memory_.merged;
        other = &memory_.merged_chunk;
        decoded = &of_parts_.merged;
        n_exact = *n_exact_of_merged;
        n_repeated = n_repeated_of_merged;
      }
    }
    n_different_ = numbering->n_unique();
    if (n_different_ > most_different(rows_->n_rows) || n_repeated > kMostRepeated) {
      return std::optional<std::uint64_t>();
    }
    spread(*numbering, *decoded);
    CFCK_TRY(encode_dictionary(info_, *numbering, n_repeated, *other, memory_, scratch_, out_));
    return std::optional<std::uint64_t>(n_exact);
  }

  // Encodes the rows of the numbers as a tensor of their own.
  Result<std::uint64_t> encode_rows(const Numbering& numbering, std::vector<std::byte>& decoded,
                                    OtherChunk& other) {
    const ByteView different = gather_rows(values_, numbering, rows_->row_bytes, memory_);
    decoded.resize(different.size());
    return encode_tensor(OwnTensor(info_, numbering.n_unique(), rows_->row_elems), different,
                         decoded, other);
  }

  // Encodes merged rows, from what they are decoded to; nothing where that gives other values.
  Result<std::optional<std::uint64_t>> encode_merged_rows() {
    const ByteView rows = gather_decoded_rows();
    of_parts_.merged.resize(rows.size());
    OtherChunk& other = memory_.merged_chunk;
    const OwnTensor tensor(info_, memory_.merged.n_unique(), rows_->row_elems);
    if (const std::optional<std::uint64_t> n_exact = encode_by_same_plan(tensor, rows)) {
      return n_exact;
    }
    CFCK_TRY_ASSIGN(const std::uint64_t n_exact,
                    encode_tensor(tensor, rows, of_parts_.merged, other));
    return decodes_to(rows) ? std::optional<std::uint64_t>(n_exact) : std::nullopt;
  }

  // The plan for all rows that differ has the same step. It may have parameters that depend on the
  // other rows: that shows when these are encoded, or decoded as a tensor of their own.
  std::optional<std::uint64_t> encode_by_same_plan(const OwnTensor& tensor, ByteView rows) {
    OtherChunk& other = memory_.merged_chunk;
    other.codec = CodecId::kDirect;
    ErrorTotals errors;
    if (!plan_->encode(0, rows, scratch_, of_parts_.merged, other.encoded, errors)) {
      return std::nullopt;
    }
    const auto decoded =
        find_decoder(CodecId::kDirect)
            ->decode(tensor.chunk(), other.encoded.payload, scratch_, of_parts_.merged);
    return decoded && decodes_to(rows) ? std::optional<std::uint64_t>(errors.n_exact)
                                       : std::nullopt;
  }

  // Puts what the merged rows are decoded to one after the other.
  ByteView gather_decoded_rows() {
    const std::size_t row_bytes = rows_->row_bytes;
    memory_.different.resize(memory_.merged.n_unique() * row_bytes);
    std::byte* to = memory_.different.data();
    for (const std::uint32_t row : memory_.merged.first) {
      std::memcpy(to, of_parts_.different.data() + memory_.rows.number[row] * row_bytes, row_bytes);
      to += row_bytes;
    }
    return memory_.different;
  }

  bool decodes_to(ByteView rows) const {
    return are_equal(rows.data(), of_parts_.merged.data(), rows.size());
  }

  // Encodes a tensor of one chunk; returns how many of its values were kept bit for bit.
  Result<std::uint64_t> encode_tensor(const OwnTensor& tensor, ByteView values,
                                      MutableBytes decoded, OtherChunk& other) {
    LossyRecord record = record_;
    record.shape.assign(tensor.shape().begin(), tensor.shape().end());
    record.chunk_elems = values.size() / (bits_per_element(record.dtype) / 8);
    const std::uint64_t value_bytes = bits_per_element(record.dtype) / 8;
    const auto read = [&](std::uint64_t first, std::uint64_t n,
                          std::vector<std::byte>&) -> Result<ByteView> {
      return values.subspan(first * value_bytes, n * value_bytes);
    };
    CFCK_TRY_ASSIGN(LossyDecision decision, direct().plan(record, std::cref(read), scratch_));
    plan_ = std::move(decision.plan);
    if (plan_ != nullptr && plan_->entropy() == info_.entropy) {
      other.codec = CodecId::kDirect;
      ErrorTotals errors;
      CFCK_TRY(plan_->encode(0, values, scratch_, decoded, other.encoded, errors));
      return errors.n_exact;
    }
    plan_ = nullptr;
    other.codec = CodecId::kLossless;
    CFCK_TRY(encode_lossless(tensor.chunk(), values, scratch_, other.encoded));
    std::copy(values.begin(), values.end(), decoded.begin());
    return std::uint64_t{0};
  }

  // Numbers rows by what they are decoded to; returns whether that makes some equal.
  bool find_merged_rows() {
    const std::uint32_t n_different = memory_.rows.n_unique();
    Numbering& by_decoded = memory_.decoded;
    memory_.finder.number_rows(of_parts_.different.data(), n_different, rows_->row_bytes,
                               by_decoded);
    if (by_decoded.n_unique() == n_different) {
      return false;
    }
    Numbering& merged = memory_.merged;
    // In order of first appearance in the chunk, as arrange() has to find them.
    constexpr std::uint32_t kNone = ~std::uint32_t{0};
    std::vector<std::uint32_t> known(by_decoded.n_unique(), kNone);
    merged.first.clear();
    merged.number.resize(memory_.rows.number.size());
    for (std::uint32_t row = 0; row < merged.number.size(); ++row) {
      std::uint32_t& number = known[by_decoded.number[memory_.rows.number[row]]];
      if (number == kNone) {
        number = merged.n_unique();
        merged.first.push_back(row);
      }
      merged.number[row] = number;
    }
    return true;
  }

  void spread(const Numbering& numbering, const std::vector<std::byte>& decoded) {
    std::byte* to = decoded_.data();
    for (const std::uint32_t number : numbering.number) {
      std::memcpy(to, decoded.data() + number * rows_->row_bytes, rows_->row_bytes);
      to += rows_->row_bytes;
    }
  }

  const LossyRecord& record_;
  const ChunkInfo& info_;
  const std::optional<RowGeometry> rows_;
  const ByteView values_;
  Scratch& scratch_;
  DictionaryScratch& memory_;
  DecodedScratch& of_parts_;
  const MutableBytes decoded_;
  EncodedChunk& out_;
  std::uint64_t n_different_ = 0;
  std::unique_ptr<const LossyPlan> plan_;  // of the last tensor; nullptr: lossless
};

class RowsPlan final : public LossyPlan {
 public:
  // `record` has an absolute bound.
  explicit RowsPlan(LossyRecord record) : record_(std::move(record)) { entropy_ = record_.entropy; }

  Result<void> encode(std::uint64_t first_elem, ByteView values, Scratch& scratch,
                      MutableBytes decoded, EncodedChunk& out, ErrorTotals& errors) const override {
    const DefaultFloatEnvironment environment;
    ChunkInfo info;
    info.dtype = record_.dtype;
    info.entropy = entropy_;
    info.n_elems = values.size() / (bits_per_element(record_.dtype) / 8);
    info.shape = record_.shape;
    info.first_elem = first_elem;
    info.level = record_.level;
    try {
      CFCK_TRY_ASSIGN(const std::uint64_t n_exact,
                      LossyChunk(record_, info, values, scratch, decoded, out).encode());
      errors = measure_errors(record_.dtype, values, decoded);
      errors.n_exact = n_exact;
    } catch (const std::bad_alloc&) {
      return Error{ErrorCode::kOutOfMemory, "out of memory while encoding a chunk", {}, {}};
    }
    return {};
  }

 private:
  const LossyRecord record_;
};

}  // namespace

bool RowsRequest::equals(const CodecRequest& other) const {
  return dynamic_cast<const RowsRequest*>(&other) != nullptr;
}

bool RowsLossyEncoder::supports(DType dtype) const { return direct().supports(dtype); }

Result<SharedRequest> RowsLossyEncoder::request_of(const LossyOptions& asked) const {
  if (!asked.is_named || !asked.bound || asked.bound->per_row) {
    return SharedRequest();
  }
  return SharedRequest(std::make_shared<const RowsRequest>());
}

Result<LossyDecision> RowsLossyEncoder::plan(const LossyRecord& record, const ReadValues& read,
                                             Scratch&) const {
  const DefaultFloatEnvironment environment;
  if (record.bound.kind == BoundKind::kNone || record.bound.per_row) {
    return LossyDecision{nullptr, LosslessReason::kNotSmaller};
  }
  CFCK_TRY_ASSIGN(const AbsoluteBound bound, direct().absolute_bound(record, read));
  if (bound.reason) {
    return LossyDecision{nullptr, *bound.reason};
  }
  LossyRecord absolute = record;
  absolute.bound = {BoundKind::kAbs, false, bound.value};
  absolute.keeps_near_zero = false;
  absolute.request = nullptr;
  return LossyDecision{std::make_unique<RowsPlan>(std::move(absolute)), {}};
}

RowSample RowsLossyEncoder::rows_to_sample(const LossyRecord& record, const ChunkInfo& info) const {
  return record.bound.per_row ? RowSample() : codec::rows_to_sample(info);
}

bool RowsLossyEncoder::may_be_smaller(std::span<const Digest> hashes) const {
  return rows_repeat(hashes);
}

}  // namespace cfck::codec
