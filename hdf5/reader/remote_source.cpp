#include "hdf5/reader/remote_source.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/bytes.hpp"
#include "hdf5/archive/reader_link.hpp"

namespace cfck::hdf5 {
namespace {

constexpr std::uint64_t kBlockBytes = std::uint64_t{64} << 10;
constexpr std::size_t kBlocks = 32;
constexpr std::uint64_t kMaxFetchBytes = std::uint64_t{4} << 20;

}  // namespace

Result<void> RemoteSource::read_at(std::uint64_t offset_bytes, MutableBytes out) const {
  if (offset_bytes > n_bytes_ || out.size() > n_bytes_ - offset_bytes) {
    return truncated("the file ends before what is read of it");
  }
  while (out.size() >= kBlockBytes) {
    const std::size_t n = std::min<std::uint64_t>(out.size(), kMaxFetchBytes);
    CFCK_TRY(fetch(offset_bytes, out.first(n)));
    out = out.subspan(n);
    offset_bytes += n;
  }
  while (!out.empty()) {
    CFCK_TRY_ASSIGN(const Block* const found, block(offset_bytes / kBlockBytes));
    const std::uint64_t at = offset_bytes % kBlockBytes;
    const std::size_t n = std::min<std::uint64_t>(out.size(), found->second.size() - at);
    std::memcpy(out.data(), found->second.data() + at, n);
    out = out.subspan(n);
    offset_bytes += n;
  }
  return {};
}

Result<const RemoteSource::Block*> RemoteSource::block(std::uint64_t number) const {
  const auto found = std::find_if(blocks_.begin(), blocks_.end(),
                                  [&](const Block& known) { return known.first == number; });
  if (found != blocks_.end()) {
    blocks_.splice(blocks_.begin(), blocks_, found);
    return &blocks_.front();
  }
  const std::uint64_t begin = number * kBlockBytes;
  Block made{number, std::vector<std::byte>(std::min(kBlockBytes, n_bytes_ - begin))};
  CFCK_TRY(fetch(begin, made.second));
  if (blocks_.size() == kBlocks) blocks_.pop_back();
  blocks_.push_front(std::move(made));
  return &blocks_.front();
}

Result<void> RemoteSource::fetch(std::uint64_t offset_bytes, MutableBytes out) const {
  std::byte wanted[16];
  store<std::uint64_t>(wanted, offset_bytes);
  store<std::uint64_t>(wanted + 8, out.size());
  std::byte is_there[1] = {};
  if (!send_all(stream_, {view_of(bytes_of({MessageKind::kWanted, sizeof(wanted)})), wanted}) ||
      !receive_all(stream_, is_there) || is_there[0] == std::byte{0} ||
      !receive_all(stream_, out)) {
    return io_error("the file cannot be read");
  }
  return {};
}

}  // namespace cfck::hdf5
