#include "interop/zip/inflated_member.hpp"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "base/run_guarded.hpp"
#include "base/text.hpp"

namespace cfck::interop {
namespace {

constexpr std::size_t kWindowBytes = 32768;
constexpr std::size_t kInputBytes = std::size_t{64} << 10;
// At most this many starts, with a window each: 32 MiB.
constexpr std::uint64_t kMaxStarts = 1024;
constexpr std::uint64_t kMinStartDistance = std::uint64_t{1} << 20;
// Parts above this, which only files made for that have, are not kept in memory.
constexpr std::uint64_t kMaxCachedPart = std::uint64_t{8} << 20;
constexpr int kRawDeflate = -15;
// Of z_stream::data_type after inflate() with Z_BLOCK.
constexpr int kUnusedBits = 7;
constexpr int kLastBlock = 64;
constexpr int kEndOfBlock = 128;

Bytef* as_zlib(std::byte* bytes) { return reinterpret_cast<Bytef*>(bytes); }

}  // namespace

// A stream of zlib that reads the member.
class InflatedMember::Inflater {
 public:
  explicit Inflater(const InflatedMember& member) : member_(member), input_(kInputBytes) {}
  ~Inflater() {
    if (open_) (void)::inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  Result<void> start(const Start& start) {
    if (::inflateInit2(&stream_, kRawDeflate) != Z_OK) return out_of_memory();
    open_ = true;
    at_ = start.in_bytes;
    if (start.used_bits > 0) {
      CFCK_TRY(fill());
      const auto byte = static_cast<int>(input_[0]);
      ++stream_.next_in;
      --stream_.avail_in;
      (void)::inflatePrime(&stream_, static_cast<int>(8 - start.used_bits),
                           byte >> start.used_bits);
    }
    if (!start.window.empty()) {
      (void)::inflateSetDictionary(&stream_, reinterpret_cast<const Bytef*>(start.window.data()),
                                   static_cast<uInt>(start.window.size()));
    }
    return {};
  }

  // Fills `out`, or stops at the end of a block where `mode` is Z_BLOCK. Returns the number of
  // bytes.
  Result<std::size_t> next(MutableBytes out, int mode) {
    stream_.next_out = as_zlib(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    while (stream_.avail_out > 0 && !ended_) {
      if (stream_.avail_in == 0 && has_input()) CFCK_TRY(fill());
      const int status = ::inflate(&stream_, mode);
      if (status == Z_MEM_ERROR) return out_of_memory();
      ended_ = status == Z_STREAM_END;
      const bool at_block_end = (stream_.data_type & kEndOfBlock) != 0;
      // Z_BUF_ERROR: nothing was read or written, as at the end of a block that was in its buffer.
      const bool needs_more =
          status == Z_BUF_ERROR && (at_block_end || (stream_.avail_in == 0 && has_input()));
      if (status != Z_OK && !ended_ && !needs_more) return member_.damaged();
      if (mode == Z_BLOCK && at_block_end) break;
    }
    return out.size() - stream_.avail_out;
  }

  bool ended() const { return ended_; }
  bool between_blocks() const {
    return (stream_.data_type & kEndOfBlock) != 0 && (stream_.data_type & kLastBlock) == 0;
  }
  // Requires: between_blocks().
  Start place(std::uint64_t out_bytes) {
    Start start;
    start.out_bytes = out_bytes;
    const auto unused = static_cast<unsigned>(stream_.data_type & kUnusedBits);
    start.used_bits = unused == 0 ? 0 : 8 - unused;
    start.in_bytes = at_ - stream_.avail_in - (unused == 0 ? 0 : 1);
    start.window.resize(kWindowBytes);
    uInt n_bytes = 0;
    (void)::inflateGetDictionary(&stream_, as_zlib(start.window.data()), &n_bytes);
    start.window.resize(n_bytes);
    return start;
  }

 private:
  bool has_input() const { return at_ < member_.member_.stored_bytes; }
  Result<void> fill() {
    const ZipMember& member = member_.member_;
    const std::uint64_t n_bytes = std::min<std::uint64_t>(kInputBytes, member.stored_bytes - at_);
    CFCK_TRY(
        member_.file_.read_at(member.offset_bytes + at_, MutableBytes(input_).subspan(0, n_bytes)));
    at_ += n_bytes;
    stream_.next_in = as_zlib(input_.data());
    stream_.avail_in = static_cast<uInt>(n_bytes);
    return {};
  }

  const InflatedMember& member_;
  std::vector<std::byte> input_;
  z_stream stream_{};
  std::uint64_t at_ = 0;  // compressed bytes read
  bool open_ = false;
  bool ended_ = false;
};

InflatedMember::InflatedMember(const ByteSource& file, ZipMember member, BlockCache& cache)
    : file_(file), member_(std::move(member)), cache_(cache) {}

InflatedMember::~InflatedMember() = default;

Error InflatedMember::damaged() const {
  return corrupt("the compressed data of the member '" + escaped(member_.name) +
                 "' of the zip file is damaged; download it again")
      .at_byte(member_.offset_bytes);
}

Result<void> InflatedMember::find(std::vector<Start>& starts) const {
  const std::uint64_t distance = std::max(kMinStartDistance, member_.n_bytes / kMaxStarts);
  starts.assign(1, {});
  Inflater inflater(*this);
  CFCK_TRY(inflater.start(starts[0]));
  std::vector<std::byte> buffer(kInputBytes);
  std::uint64_t out_bytes = 0;
  uLong crc = ::crc32(0, nullptr, 0);
  while (!inflater.ended()) {
    CFCK_TRY_ASSIGN(const std::size_t n_bytes, inflater.next(buffer, Z_BLOCK));
    out_bytes += n_bytes;
    if (out_bytes > member_.n_bytes) return damaged();
    crc = ::crc32(crc, as_zlib(buffer.data()), static_cast<uInt>(n_bytes));
    if (inflater.between_blocks() && out_bytes - starts.back().out_bytes >= distance) {
      starts.push_back(inflater.place(out_bytes));
    }
  }
  if (out_bytes != member_.n_bytes || crc != member_.crc) return damaged();
  return {};
}

Result<void> InflatedMember::read_at(std::uint64_t offset_bytes, MutableBytes out) const {
  if (offset_bytes > size() || out.size() > size() - offset_bytes) {
    return truncated("the member '" + escaped(member_.name) + "' of the zip file ends at byte " +
                     std::to_string(size()));
  }
  if (out.empty()) return {};
  const std::vector<Start>* known = nullptr;
  {
    const auto starts = starts_.lock();
    if (!starts->found) starts->found = find(starts->all);
    CFCK_TRY(*starts->found);
    known = &starts->all;
  }
  const std::vector<Start>& starts = *known;
  const auto after =
      std::upper_bound(starts.begin(), starts.end(), offset_bytes,
                       [](std::uint64_t at, const Start& start) { return at < start.out_bytes; });
  for (auto i = static_cast<std::size_t>(after - starts.begin()) - 1; !out.empty(); ++i) {
    const std::uint64_t n_bytes =
        std::min<std::uint64_t>(out.size(), part_end(starts, i) - offset_bytes);
    CFCK_TRY(read_part(starts, i, offset_bytes - starts[i].out_bytes, out.first(n_bytes)));
    out = out.subspan(n_bytes);
    offset_bytes += n_bytes;
  }
  return {};
}

std::uint64_t InflatedMember::part_end(const std::vector<Start>& starts, std::size_t i) const {
  return i + 1 < starts.size() ? starts[i + 1].out_bytes : size();
}

Result<void> InflatedMember::read_part(const std::vector<Start>& starts, std::size_t i,
                                       std::uint64_t skipped, MutableBytes out) const {
  const std::uint64_t part_bytes = part_end(starts, i) - starts[i].out_bytes;
  if (out.size() == part_bytes || part_bytes > kMaxCachedPart) {
    return inflate_from(starts[i], skipped, out);
  }
  BlockCache::Block block = cache_.find({this, i});
  if (block == nullptr) {
    auto bytes = std::make_shared<std::vector<std::byte>>(part_bytes);
    CFCK_TRY(inflate_from(starts[i], 0, *bytes));
    block = std::move(bytes);
    cache_.add({this, i}, block);
  }
  const ByteView wanted = ByteView(*block).subspan(skipped, out.size());
  std::copy(wanted.begin(), wanted.end(), out.begin());
  return {};
}

Result<void> InflatedMember::inflate_from(const Start& start, std::uint64_t skipped,
                                          MutableBytes out) const {
  Inflater inflater(*this);
  CFCK_TRY(inflater.start(start));
  std::vector<std::byte> unwanted(kInputBytes);
  while (skipped > 0) {
    const std::uint64_t n_bytes = std::min<std::uint64_t>(kInputBytes, skipped);
    CFCK_TRY_ASSIGN(const std::size_t n_done,
                    inflater.next(MutableBytes(unwanted).first(n_bytes), Z_NO_FLUSH));
    if (n_done == 0) return damaged();
    skipped -= n_done;
  }
  constexpr std::size_t kMaxOutput = std::size_t{1} << 30;  // zlib counts with 32 bits
  while (!out.empty()) {
    CFCK_TRY_ASSIGN(const std::size_t n_done,
                    inflater.next(out.first(std::min(out.size(), kMaxOutput)), Z_NO_FLUSH));
    if (n_done == 0) return damaged();
    out = out.subspan(n_done);
  }
  return {};
}

}  // namespace cfck::interop
