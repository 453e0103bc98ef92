#include "format/container/frame_walk.hpp"

#include <algorithm>

#include "base/hashing/hashing.hpp"
#include "format/container/frame_fields.hpp"

namespace cfck::format {
namespace {

constexpr std::uint32_t kZstdMagic = 0xFD2FB528;
constexpr std::uint32_t kAnySkippableMagic = 0x184D2A50;  // the last four bits are free
constexpr std::uint64_t kWindowBytes = 4096;

// Small reads at increasing offsets, through one window.
class Window {
 public:
  explicit Window(const ByteSource& source) : source_(source), n_source_bytes_(source.size()) {}

  std::uint64_t source_bytes() const noexcept { return n_source_bytes_; }

  // Returns a pointer to `n_bytes` bytes, valid until the next call. kTruncated at the end.
  Result<const std::byte*> at(std::uint64_t offset_bytes, std::uint64_t n_bytes) {
    if (offset_bytes > n_source_bytes_ || n_bytes > n_source_bytes_ - offset_bytes) {
      return cfck::truncated("the file ends inside a frame").at_byte(offset_bytes);
    }
    const bool inside = offset_bytes >= start_ && offset_bytes + n_bytes <= start_ + bytes_.size();
    if (!inside) {
      bytes_.resize(std::min(kWindowBytes, n_source_bytes_ - offset_bytes));
      start_ = offset_bytes;
      Result<void> read = source_.read_at(offset_bytes, bytes_);
      if (!read) {
        bytes_.clear();
        return std::move(read).error();
      }
    }
    return bytes_.data() + (offset_bytes - start_);
  }

 private:
  const ByteSource& source_;
  std::uint64_t n_source_bytes_;
  std::uint64_t start_ = 0;
  std::vector<std::byte> bytes_;
};

// RFC 8878, section 3.1.1.1: magic number, descriptor, then fields that the
// descriptor announces.
std::uint64_t zstd_header_bytes(unsigned descriptor) {
  const unsigned content_flag = descriptor >> 6;
  const bool single_segment = (descriptor >> 5 & 1) != 0;
  constexpr unsigned kDictionaryBytes[] = {0, 1, 2, 4};
  constexpr unsigned kContentBytes[] = {0, 2, 4, 8};
  const unsigned content_bytes =
      content_flag == 0 && single_segment ? 1 : kContentBytes[content_flag];
  return 5 + (single_segment ? 0 : 1) + kDictionaryBytes[descriptor & 3] + content_bytes;
}

// Returns the end of the ordinary frame at `offset_bytes`.
Result<std::uint64_t> zstd_frame_end(Window& window, std::uint64_t offset_bytes) {
  CFCK_TRY_ASSIGN(const std::byte* const descriptor_at, window.at(offset_bytes + 4, 1));
  const auto descriptor = std::to_integer<unsigned>(*descriptor_at);
  if ((descriptor & 8) != 0) {
    return corrupt("a Zstd frame has a reserved bit set", offset_bytes + 4);
  }
  std::uint64_t end = offset_bytes + zstd_header_bytes(descriptor);
  bool last = false;
  while (!last) {
    CFCK_TRY_ASSIGN(const std::byte* const at, window.at(end, 3));
    const std::uint32_t header = load<std::uint16_t>(at) | std::to_integer<std::uint32_t>(at[2])
                                                               << 16;
    last = (header & 1) != 0;
    const std::uint32_t type = header >> 1 & 3;
    const std::uint32_t size = header >> 3;
    if (type == 3) {
      return corrupt("a Zstd frame has a block of an unknown type", end);
    }
    end += 3 + (type == 1 ? 1 : size);
  }
  return end + ((descriptor & 4) != 0 ? 4 : 0);
}

Result<Frame> frame_at(Window& window, std::uint64_t offset_bytes) {
  CFCK_TRY_ASSIGN(const std::byte* const magic_at, window.at(offset_bytes, 4));
  const auto magic = load<std::uint32_t>(magic_at);
  Frame frame;
  frame.offset_bytes = offset_bytes;
  std::uint64_t end = 0;
  if ((magic & ~std::uint32_t{15}) == kAnySkippableMagic) {
    CFCK_TRY_ASSIGN(const std::byte* const size_at, window.at(offset_bytes + 4, 4));
    const std::uint64_t n_bytes = load<std::uint32_t>(size_at);
    frame.skippable = true;
    end = offset_bytes + 8 + n_bytes;
    if (magic == kSkippableMagic && n_bytes >= 4 && end <= window.source_bytes()) {
      CFCK_TRY_ASSIGN(const std::byte* const tag_at, window.at(offset_bytes + 8, 4));
      frame.tag = load<Tag>(tag_at);
    }
  } else if (magic == kZstdMagic) {
    CFCK_TRY_ASSIGN(end, zstd_frame_end(window, offset_bytes));
  } else {
    return corrupt("no frame starts here", offset_bytes);
  }
  if (end > window.source_bytes()) {
    return cfck::truncated("the file ends inside a frame").at_byte(offset_bytes);
  }
  frame.n_bytes = end - offset_bytes;
  return frame;
}

// Requires: the extent is inside the file.
Result<bool> matches(const ByteSource& source, const Extent& extent, const Digest& hash) {
  std::vector<std::byte> bytes(extent.n_bytes);
  CFCK_TRY(source.read_at(extent.offset_bytes, bytes));
  return hash128(bytes) == hash;
}

}  // namespace

Result<void> walk_frames(const ByteSource& source,
                         const std::function<Result<bool>(const Frame& frame)>& visit) {
  Window window(source);
  std::uint64_t offset_bytes = 0;
  while (offset_bytes < window.source_bytes()) {
    CFCK_TRY_ASSIGN(const Frame frame, frame_at(window, offset_bytes));
    CFCK_TRY_ASSIGN(const bool go_on, visit(frame));
    if (!go_on) {
      return {};
    }
    offset_bytes += frame.n_bytes;
  }
  return {};
}

Result<std::optional<Generation>> find_last_generation(const ByteSource& source) {
  std::vector<Generation> found;
  const Result<void> walked = walk_frames(source, [&](const Frame& frame) -> Result<bool> {
    if (frame.offset_bytes == 0 && frame.tag != kHeadTag) {
      return false;
    }
    if (frame.tag != kTailTag || frame.n_bytes != kTailBytes) {
      return true;
    }
    std::array<std::byte, kTailBytes> bytes;
    CFCK_TRY(source.read_at(frame.offset_bytes, bytes));
    if (const Result<Tail> tail = decode_tail(bytes, frame.offset_bytes)) {
      found.push_back({*tail, frame.offset_bytes + frame.n_bytes});
    }
    return true;
  });
  if (!walked && walked.error().code == ErrorCode::kIo) {
    return walked.error();
  }
  for (auto it = found.rbegin(); it != found.rend(); ++it) {
    CFCK_TRY_ASSIGN(const bool metadata,
                    matches(source, it->tail.metadata, it->tail.metadata_hash));
    CFCK_TRY_ASSIGN(const bool index, matches(source, it->tail.index, it->tail.index_hash));
    if (metadata && index) {
      return std::optional<Generation>(*it);
    }
  }
  return std::optional<Generation>();
}

}  // namespace cfck::format
