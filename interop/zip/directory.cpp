#include "interop/zip/directory.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "interop/zip/fields.hpp"

namespace cfck::interop {
namespace {

constexpr std::uint32_t kLocalMagic = 0x04034b50;
constexpr std::uint32_t kEntryMagic = 0x02014b50;
constexpr std::uint32_t kEndMagic = 0x06054b50;
constexpr std::uint32_t kEnd64Magic = 0x06064b50;
constexpr std::uint32_t kLocatorMagic = 0x07064b50;
constexpr std::uint64_t kLocalBytes = 30;
constexpr std::uint64_t kEntryBytes = 46;
constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kEnd64Bytes = 56;
constexpr std::uint64_t kLocatorBytes = 20;
constexpr std::uint64_t kMaxCommentBytes = 0xffff;
constexpr std::uint64_t kMaxMembers = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxDirectoryBytes = std::uint64_t{1} << 28;
constexpr std::uint16_t kEncrypted = 1;
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflated = 8;
constexpr std::uint16_t kZip64Field = 1;
// A compressed byte stands for 1032 at most (RFC 1951: 258 bytes in two bits).
constexpr std::uint64_t kMaxDeflateRatio = 1032;

// The directory, as the end of the file describes it.
struct Place {
  std::uint64_t offset_bytes = 0;
  std::uint64_t n_bytes = 0;
  std::uint64_t n_members = 0;
};

struct Entry {
  ZipMember member;
  std::uint64_t local_bytes = 0;  // where its local header starts
};

Result<std::vector<std::byte>> read(const ByteSource& source, std::uint64_t offset_bytes,
                                    std::uint64_t n_bytes) {
  std::vector<std::byte> bytes(n_bytes);
  CFCK_TRY(source.read_at(offset_bytes, bytes));
  return bytes;
}

Error no_directory(const ByteSource& source) {
  std::array<std::byte, 2> start{};
  const bool is_zip = source.size() >= start.size() && source.read_at(0, start) &&
                      start == std::array{std::byte{'P'}, std::byte{'K'}};
  if (is_zip) return truncated("the zip file has no directory at its end; download it again");
  return corrupt("this is not a zip file, as .pt, .npz and .keras files are; download it again");
}

// Returns where the end of the directory starts: the comment behind it reaches the end of the file.
Result<std::uint64_t> find_end(const ByteSource& source) {
  const std::uint64_t file_bytes = source.size();
  const std::uint64_t n_bytes = std::min(file_bytes, kEndBytes + kMaxCommentBytes);
  CFCK_TRY_ASSIGN(const auto bytes, read(source, file_bytes - n_bytes, n_bytes));
  for (std::uint64_t behind = kEndBytes; behind <= n_bytes; ++behind) {
    const std::byte* const at = bytes.data() + (n_bytes - behind);
    if (load<std::uint32_t>(at) != kEndMagic) continue;
    if (load<std::uint16_t>(at + 20) == behind - kEndBytes) return file_bytes - behind;
  }
  return no_directory(source);
}

Result<Place> place_in_64(const ByteSource& source, std::uint64_t end_bytes) {
  const auto bad = [&] {
    return corrupt("the zip64 end of the zip file's directory is damaged; download it again")
        .at_byte(end_bytes);
  };
  if (end_bytes < kLocatorBytes + kEnd64Bytes) return bad();
  CFCK_TRY_ASSIGN(const auto locator, read(source, end_bytes - kLocatorBytes, kLocatorBytes));
  const auto end64_bytes = load<std::uint64_t>(locator.data() + 8);
  if (load<std::uint32_t>(locator.data()) != kLocatorMagic ||
      end64_bytes > end_bytes - kLocatorBytes - kEnd64Bytes) {
    return bad();
  }
  CFCK_TRY_ASSIGN(const auto end64, read(source, end64_bytes, kEnd64Bytes));
  const std::byte* const at = end64.data();
  if (load<std::uint32_t>(at) != kEnd64Magic) return bad();
  if (load<std::uint32_t>(at + 16) != 0 || load<std::uint32_t>(at + 20) != 0) {
    return unsupported("the zip file is one part of several; join them first");
  }
  const Place place{load<std::uint64_t>(at + 48), load<std::uint64_t>(at + 40),
                    load<std::uint64_t>(at + 32)};
  if (place.offset_bytes > end64_bytes || place.n_bytes > end64_bytes - place.offset_bytes) {
    return bad();
  }
  return place;
}

Result<Place> find_directory(const ByteSource& source) {
  CFCK_TRY_ASSIGN(const std::uint64_t end_bytes, find_end(source));
  CFCK_TRY_ASSIGN(const auto end, read(source, end_bytes, kEndBytes));
  const std::byte* const at = end.data();
  const Place place{load<std::uint32_t>(at + 16), load<std::uint32_t>(at + 12),
                    load<std::uint16_t>(at + 10)};
  const bool in_64 =
      place.offset_bytes == kIn64 || place.n_bytes == kIn64 || place.n_members == kManyMembers;
  if (in_64) return place_in_64(source, end_bytes);
  if (load<std::uint16_t>(at + 4) != 0 || load<std::uint16_t>(at + 6) != 0) {
    return unsupported("the zip file is one part of several; join them first");
  }
  if (place.offset_bytes > end_bytes || place.n_bytes > end_bytes - place.offset_bytes) {
    return corrupt("the zip file's directory does not lie in the file; download it again")
        .at_byte(end_bytes);
  }
  return place;
}

// Replaces the values that do not fit 32 bits by those of the zip64 field. Returns false for a
// field that lacks them.
bool apply_zip64(Entry& entry, ByteView extra) {
  std::uint64_t* const wanted[] = {&entry.member.n_bytes, &entry.member.stored_bytes,
                                   &entry.local_bytes};
  while (extra.size() >= 4) {
    const auto id = load<std::uint16_t>(extra.data());
    const std::size_t n_bytes = load<std::uint16_t>(extra.data() + 2);
    if (n_bytes > extra.size() - 4) return false;
    ByteView field = extra.subspan(4, n_bytes);
    extra = extra.subspan(4 + n_bytes);
    if (id != kZip64Field) continue;
    for (std::uint64_t* const value : wanted) {
      if (*value != kIn64) continue;
      if (field.size() < 8) return false;
      *value = load<std::uint64_t>(field.data());
      field = field.subspan(8);
    }
    return true;
  }
  // Without a field, 2^32 - 1 is a size.
  return true;
}

class DirectoryParser {
 public:
  DirectoryParser(ByteView bytes, std::uint64_t offset_bytes, MemberNames names)
      : rest_(bytes), offset_bytes_(offset_bytes), names_(names) {}

  Result<Entry> next() {
    const auto bad = [&](const char* what) {
      return corrupt(std::string("the zip file's directory ") + what + "; download it again")
          .at_byte(offset_bytes_);
    };
    if (rest_.size() < kEntryBytes) return bad("has fewer entries than its end says");
    const std::byte* const at = rest_.data();
    if (load<std::uint32_t>(at) != kEntryMagic) return bad("is damaged");
    const std::size_t name_bytes = load<std::uint16_t>(at + 28);
    const std::size_t extra_bytes = load<std::uint16_t>(at + 30);
    const std::size_t n_bytes =
        kEntryBytes + name_bytes + extra_bytes + load<std::uint16_t>(at + 32);
    if (n_bytes > rest_.size()) return bad("ends inside an entry");
    Entry entry;
    entry.member.name.assign(reinterpret_cast<const char*>(at + kEntryBytes), name_bytes);
    const auto about = [&](Error error) {
      error.message =
          "the member '" + escaped(entry.member.name) + "' of the zip file " + error.message;
      return std::move(error).at_byte(offset_bytes_);
    };
    if (names_ == MemberNames::kUnpacked && !is_safe_member_name(entry.member.name)) {
      return about(corrupt("has a name that leaves the folder, or that is not UTF-8"));
    }
    if (!valid_utf8(entry.member.name)) return about(corrupt("has a name that is not UTF-8"));
    if ((load<std::uint16_t>(at + 8) & kEncrypted) != 0) {
      return about(unsupported("is encrypted; decrypt it first"));
    }
    const auto method = load<std::uint16_t>(at + 10);
    if (method != kStored && method != kDeflated) {
      return about(unsupported("is compressed by method " + std::to_string(method) +
                               ", which is not read; pack it again, stored"));
    }
    entry.member.stored = method == kStored;
    entry.member.crc = load<std::uint32_t>(at + 16);
    entry.member.stored_bytes = load<std::uint32_t>(at + 20);
    entry.member.n_bytes = load<std::uint32_t>(at + 24);
    entry.local_bytes = load<std::uint32_t>(at + 42);
    if (!apply_zip64(entry, rest_.subspan(kEntryBytes + name_bytes, extra_bytes))) {
      return about(corrupt("has a damaged zip64 field; download the file again"));
    }
    if (entry.member.stored && entry.member.n_bytes != entry.member.stored_bytes) {
      return about(corrupt("is stored, but in another number of bytes than it has"));
    }
    if (entry.member.n_bytes / kMaxDeflateRatio > entry.member.stored_bytes) {
      return about(corrupt("claims more bytes than its compressed ones can have"));
    }
    rest_ = rest_.subspan(n_bytes);
    offset_bytes_ += n_bytes;
    return entry;
  }

  bool at_end() const { return rest_.empty(); }

 private:
  ByteView rest_;
  std::uint64_t offset_bytes_;
  MemberNames names_;
};

// Finds the data of a member by its local header, which must name the same member. `limit_bytes` is
// where the next member or the directory starts.
Result<void> locate(const ByteSource& source, Entry& entry, std::uint64_t limit_bytes) {
  const auto bad = [&](const char* what) {
    return corrupt("the member '" + escaped(entry.member.name) + "' of the zip file " + what +
                   "; download it again")
        .at_byte(entry.local_bytes);
  };
  const std::uint64_t name_bytes = entry.member.name.size();
  if (entry.local_bytes > limit_bytes ||
      limit_bytes - entry.local_bytes < kLocalBytes + name_bytes) {
    return bad("has no room for its header");
  }
  CFCK_TRY_ASSIGN(const auto header, read(source, entry.local_bytes, kLocalBytes + name_bytes));
  const std::byte* const at = header.data();
  const std::string_view name(reinterpret_cast<const char*>(at + kLocalBytes), name_bytes);
  if (load<std::uint32_t>(at) != kLocalMagic || load<std::uint16_t>(at + 26) != name_bytes ||
      name != entry.member.name) {
    return bad("has another header than the directory says");
  }
  const std::uint64_t start_bytes =
      entry.local_bytes + kLocalBytes + name_bytes + load<std::uint16_t>(at + 28);
  if (start_bytes > limit_bytes || entry.member.stored_bytes > limit_bytes - start_bytes) {
    return bad("reaches into what follows it");
  }
  entry.member.offset_bytes = start_bytes;
  return {};
}

}  // namespace

bool is_safe_member_name(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\0') != name.npos ||
      name.find('\\') != name.npos || !valid_utf8(name)) {
    return false;
  }
  for (std::size_t first = 0; first <= name.size();) {
    const std::size_t slash = std::min(name.find('/', first), name.size());
    if (name.substr(first, slash - first) == "..") return false;
    first = slash + 1;
  }
  return true;
}

Result<std::vector<ZipMember>> read_zip_directory(const ByteSource& source,
                                                  MemberNames member_names) {
  if (source.size() < kEndBytes) {
    return no_directory(source);
  }
  CFCK_TRY_ASSIGN(const Place place, find_directory(source));
  if (place.n_bytes > kMaxDirectoryBytes || place.n_members > kMaxMembers ||
      place.n_members > place.n_bytes / kEntryBytes) {
    return limit_exceeded("the zip file claims " + std::to_string(place.n_members) +
                          " members in a directory of " + std::to_string(place.n_bytes) +
                          " bytes: more than fit there, or than cfck reads")
        .at_byte(place.offset_bytes);
  }
  CFCK_TRY_ASSIGN(const auto bytes, read(source, place.offset_bytes, place.n_bytes));
  DirectoryParser parser(bytes, place.offset_bytes, member_names);
  std::vector<Entry> entries;
  entries.reserve(place.n_members);
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < place.n_members; ++i) {
    CFCK_TRY_ASSIGN(Entry entry, parser.next());
    const bool is_new = names.insert(entry.member.name).second;
    if (!is_new && member_names == MemberNames::kUnpacked) {
      return corrupt("the zip file has two members named '" + escaped(entry.member.name) + "'")
          .at_byte(place.offset_bytes);
    }
    entries.push_back(std::move(entry));
  }
  if (!parser.at_end()) {
    return corrupt("the zip file's directory has more entries than its end says")
        .at_byte(place.offset_bytes);
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.local_bytes < b.local_bytes; });
  std::vector<ZipMember> members;
  members.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::uint64_t limit_bytes =
        i + 1 < entries.size() ? entries[i + 1].local_bytes : place.offset_bytes;
    CFCK_TRY(locate(source, entries[i], limit_bytes));
    members.push_back(std::move(entries[i].member));
  }
  return members;
}

bool is_zip_of_numpy(const ByteSource& source) {
  const auto members = read_zip_directory(source, MemberNames::kAny);
  if (!members) return false;
  const auto has = [&](std::string_view end) {
    return std::any_of(members->begin(), members->end(),
                       [&](const ZipMember& member) { return member.name.ends_with(end); });
  };
  return has(".npy") && !has("data.pkl") && !has("model.weights.h5");
}

}  // namespace cfck::interop
