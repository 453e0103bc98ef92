#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "base/bytes.hpp"
#include "base/device.hpp"
#include "base/hashing/hashing.hpp"
#include "base/overlap.hpp"
#include "base/run_guarded.hpp"
#include "cfck/io.hpp"
#include "cfck/message.hpp"
#include "encode/trial/candidates.hpp"
#include "encode/trial/trial.hpp"
#include "message/chunk_encode.hpp"
#include "message/layout.hpp"
#include "message/plan.hpp"
#include "message/workspace.hpp"

namespace cfck {
namespace message {
namespace {

// A workspace keeps this for encoding.
struct EncodeMemory {
  encode::WorkerMemory worker;
  encode::EncodePlan plan;
};

// Copies a payload in pieces. For long ones libc takes an instruction that on some CPUs is ten
// times slower where source and destination lie alike in their pages, as large buffers do.
void copy_payload(ByteView payload, std::byte* to) {
  constexpr std::size_t kPieceBytes = 2048;
  for (std::size_t at = 0; at < payload.size(); at += kPieceBytes) {
    std::memcpy(to + at, payload.data() + at, std::min(kPieceBytes, payload.size() - at));
  }
}

// Writes header and hash around what is there already. Returns the length of the message, of which
// `n_bytes` are before the hash.
std::uint64_t seal(const Header& header, std::uint64_t n_bytes, MutableBytes out) {
  write_header(header, out.data());
  store<std::uint64_t>(out.data() + n_bytes, tiled_hash64(out.first(n_bytes)));
  return n_bytes + kHashBytes;
}

std::uint64_t write_raw(const Header& header, ByteView values, MutableBytes out) {
  std::copy(values.begin(), values.end(), out.begin() + static_cast<std::ptrdiff_t>(header.size()));
  return seal(header, header.size() + values.size(), out);
}

Result<std::uint64_t> write_one_chunk(Header header, ByteView values, EncodeMemory& memory,
                                      MutableBytes out) {
  CFCK_TRY_ASSIGN(const encode::SingleChoice chosen,
                  encode_chunk(memory.plan, header.size() + kHashBytes, values, memory.worker));
  const ByteView payload = memory.worker.encoded.payload;
  if (chosen.candidate.codec == CodecId::kRaw || payload.size() >= values.size()) {
    return write_raw(header, values, out);
  }
  if (!chosen.candidate.preamble().empty()) {
    return internal_error("a codec has a preamble for a tensor of one chunk");
  }
  header.codec = chosen.candidate.codec;
  header.entropy = chosen.candidate.entropy;
  copy_payload(payload, out.data() + header.size());
  return seal(header, header.size() + payload.size(), out);
}

// A message of several chunks: each candidate is written, and the shortest kept.
class ChunkedMessage {
 public:
  ChunkedMessage(const Header& header, ByteView values, EncodeMemory& memory, MutableBytes out)
      : header_(header), values_(values), memory_(memory), out_(out) {
    header_.has_table = true;
  }

  Result<std::uint64_t> write() {
    CFCK_TRY_ASSIGN(
        const encode::Candidates candidates,
        encode::candidates_for(memory_.plan, costs_of_chunks(header_.size() + kHashBytes),
                               memory_.worker));
    std::uint64_t fewest = raw_message_bytes(header_);
    const encode::Candidate* best = nullptr;
    const encode::Candidate* last = nullptr;
    for (const encode::Candidate& candidate : candidates.list) {
      CFCK_TRY_ASSIGN(const std::optional<std::uint64_t> n_bytes, write_with(candidate, fewest));
      last = &candidate;
      if (n_bytes) {
        best = &candidate;
        fewest = *n_bytes;
      }
    }
    if (best == nullptr) {
      header_.has_table = false;
      return write_raw(header_, values_, out_);
    }
    if (best != last) {
      CFCK_TRY(write_with(*best, fewest + 1));
    }
    header_.codec = best->codec;
    header_.entropy = best->entropy;
    return seal(header_, fewest - kHashBytes, out_);
  }

 private:
  // Writes table, preamble and payloads. Returns the length of the message, or std::nullopt where
  // it would not be below `limit`.
  Result<std::optional<std::uint64_t>> write_with(const encode::Candidate& candidate,
                                                  std::uint64_t limit) {
    const codec::ChunkGeometry& geometry = memory_.plan.geometry;
    const ByteView preamble = candidate.preamble();
    const std::size_t table_at = header_.size();
    std::uint64_t at = table_at + table_bytes(geometry.n_chunks);
    const auto fits = [&](std::uint64_t n_more) { return at + n_more + kHashBytes < limit; };
    if (preamble.size() > UINT32_MAX || !fits(preamble.size())) {
      return std::optional<std::uint64_t>();
    }
    store<std::uint32_t>(out_.data() + table_at, static_cast<std::uint32_t>(geometry.chunk_elems));
    store<std::uint32_t>(out_.data() + table_at + 4, static_cast<std::uint32_t>(preamble.size()));
    std::copy(preamble.begin(), preamble.end(), out_.begin() + static_cast<std::ptrdiff_t>(at));
    at += preamble.size();
    for (std::uint64_t chunk = 0; chunk < geometry.n_chunks; ++chunk) {
      const ByteView values =
          values_.subspan(chunk * geometry.chunk_bytes, geometry.bytes_of(chunk));
      CFCK_TRY(encode::encode_chunk(memory_.plan, candidate, chunk, values, memory_.worker));
      const ByteView payload = memory_.worker.encoded.payload;
      if (!fits(payload.size())) {
        return std::optional<std::uint64_t>();
      }
      store<std::uint32_t>(out_.data() + table_at + kTableFixedBytes + kLengthBytes * chunk,
                           static_cast<std::uint32_t>(payload.size()));
      copy_payload(payload, out_.data() + at);
      at += payload.size();
    }
    return std::optional<std::uint64_t>(at + kHashBytes);
  }

  Header header_;
  const ByteView values_;
  EncodeMemory& memory_;
  const MutableBytes out_;
};

Result<std::uint64_t> encode(const TensorView& tensor, const MessageOptions& options,
                             MutableBytes out, MessageWorkspace& workspace) {
  CFCK_TRY(check_on_host(tensor.device, ""));
  CFCK_TRY_ASSIGN(const Header header, header_for(tensor.dtype, tensor.shape));
  CFCK_TRY_ASSIGN(encode::TensorChoice choice, choose(options, tensor.dtype, tensor.shape));
  if (tensor.data.size() != header.n_bytes) {
    return invalid_argument("the tensor has " + std::to_string(tensor.data.size()) +
                            " bytes, and its dtype and shape need " +
                            std::to_string(header.n_bytes));
  }
  if (out.size() < raw_message_bytes(header)) {
    return invalid_argument("the message may take " + std::to_string(raw_message_bytes(header)) +
                            " bytes, and there is space for " + std::to_string(out.size()) +
                            "; ask max_message_bytes()");
  }
  CFCK_TRY(check_apart(out.first(raw_message_bytes(header)), tensor.data, "the tensor"));
  if (header.n_elems == 0 || choice.codec == CodecChoice::kRaw) {
    return write_raw(header, tensor.data, out);
  }
  EncodeMemory& memory = MessageMemory::scratch_of(workspace).part<EncodeMemory>();
  const MemorySource source(tensor.data);
  plan_values({tensor.dtype, tensor.shape, source,
               chunk_elems_for(options, tensor.dtype, tensor.shape, header.n_elems, choice),
               options.entropy, options.level},
              memory.plan);
  memory.plan.choice = std::move(choice);
  return memory.plan.geometry.n_chunks == 1
             ? write_one_chunk(header, tensor.data, memory, out)
             : ChunkedMessage(header, tensor.data, memory, out).write();
}

}  // namespace
}  // namespace message

Result<std::uint64_t> max_message_bytes(const MessageOptions& options, DType dtype,
                                        const Shape& shape) {
  return detail::run_guarded([&]() -> Result<std::uint64_t> {
    CFCK_TRY_ASSIGN(const message::Header header, message::header_for(dtype, shape));
    CFCK_TRY(message::choose(options, dtype, shape));
    return message::raw_message_bytes(header);
  });
}

Result<std::uint64_t> encode_message(const TensorView& tensor, const MessageOptions& options,
                                     MutableBytes out, MessageWorkspace& workspace) {
  return detail::run_guarded([&] { return message::encode(tensor, options, out, workspace); });
}

}  // namespace cfck
