// Fields of a skippable frame, read in order with every length checked.
#pragma once

#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "format/container/container.hpp"

namespace cfck::format {

// "INDX", or escapes where a tag is not text.
std::string tag_text(const Tag& tag);

inline Error corrupt(std::string message, std::uint64_t offset_bytes, std::string record = {}) {
  return Error{ErrorCode::kCorrupt, std::move(message), std::move(record), offset_bytes};
}

// The header at the start of `bytes` (at least 8) of a frame of `n_bytes`, tag included.
Result<void> check_frame_header(ByteView frame, const Tag& tag, std::uint64_t n_bytes,
                                std::uint64_t frame_offset);

// Requires: the caller asks for no more than remaining().
class FieldReader {
 public:
  FieldReader(ByteView bytes, std::uint64_t offset_bytes)
      : bytes_(bytes), offset_bytes_(offset_bytes) {}

  std::uint64_t remaining() const noexcept { return bytes_.size() - position_; }
  // Offset of the next field, from the start of the file.
  std::uint64_t offset_bytes() const noexcept { return offset_bytes_ + position_; }

  // The bytes that have not been taken yet.
  ByteView rest() const noexcept { return bytes_.subspan(position_); }

  template <class T>
  T take() noexcept {
    const T value = load<T>(bytes_.data() + position_);
    position_ += sizeof(T);
    return value;
  }
  Digest take_digest() noexcept {
    Digest digest;
    std::memcpy(digest.data(), bytes_.data() + position_, digest.size());
    position_ += digest.size();
    return digest;
  }
  ByteView take_bytes(std::uint64_t n_bytes) noexcept {
    const ByteView part = bytes_.subspan(position_, n_bytes);
    position_ += n_bytes;
    return part;
  }
  std::string_view take_text(std::uint64_t n_bytes) noexcept {
    const ByteView part = take_bytes(n_bytes);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }

 private:
  ByteView bytes_;
  std::uint64_t offset_bytes_;
  std::uint64_t position_ = 0;
};

}  // namespace cfck::format
