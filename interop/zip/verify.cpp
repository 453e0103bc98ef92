#include "interop/zip/verify.hpp"

#include <zlib.h>

#include <algorithm>
#include <vector>

#include "base/text.hpp"
#include "interop/zip/inflated_member.hpp"

namespace cfck::interop {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;

class Verifier {
 public:
  Verifier(const ByteSource& file, const ReadProgress& progress)
      : file_(file), progress_(progress), piece_(kPieceBytes) {}

  Result<void> check(const ZipMember& member) {
    const auto checked = member.stored ? check_stored(member) : check_inflated(member);
    report_.n_records += 1;
    if (checked) return {};
    const ErrorCode code = checked.error().code;
    if (code != ErrorCode::kChecksum && code != ErrorCode::kCorrupt) return checked.error();
    report_.problems.push_back(checked.error());
    return {};
  }
  VerifyReport take() { return std::move(report_); }

 private:
  Result<void> check_stored(const ZipMember& member) {
    uLong crc = ::crc32(0, nullptr, 0);
    for (std::uint64_t at = 0; at < member.n_bytes;) {
      const MutableBytes part =
          MutableBytes(piece_).first(std::min(kPieceBytes, member.n_bytes - at));
      CFCK_TRY(file_.read_at(member.offset_bytes + at, part));
      crc =
          ::crc32(crc, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()));
      at += part.size();
      CFCK_TRY(add_done(part.size(), member));
    }
    if (crc == member.crc) return {};
    Error error = corrupt("the CRC-32 of the member '" + escaped(member.name) +
                          "' of the zip file is not that of its bytes")
                      .at_byte(member.offset_bytes);
    error.code = ErrorCode::kChecksum;
    return error;
  }
  Result<void> check_inflated(const ZipMember& member) {
    BlockCache cache(0);
    const InflatedMember inflated(file_, member, cache);
    std::byte first{};
    // The first read decompresses and compares everything.
    if (member.n_bytes > 0) CFCK_TRY(inflated.read_at(0, {&first, 1}));
    return add_done(member.stored_bytes, member);
  }
  Result<void> add_done(std::uint64_t n_bytes, const ZipMember& member) {
    report_.checked_bytes += n_bytes;
    if (progress_ && !progress_(report_.checked_bytes, member.name)) return cancelled();
    return {};
  }

  const ByteSource& file_;
  const ReadProgress& progress_;
  std::vector<std::byte> piece_;
  VerifyReport report_;
};

}  // namespace

Result<VerifyReport> verify_zip(const ByteSource& file, std::span<const ZipMember> members,
                                const ReadProgress& progress) {
  const bool has_none = std::all_of(members.begin(), members.end(),
                                    [](const ZipMember& member) { return member.crc == 0; });
  if (has_none && !members.empty()) {
    return unsupported(
        "the file was written without checksums; convert it to .cfck to have every byte checked");
  }
  Verifier verifier(file, progress);
  for (const ZipMember& member : members) CFCK_TRY(verifier.check(member));
  return verifier.take();
}

}  // namespace cfck::interop
