#include "interop/zip/sink.hpp"

#include <zlib.h>

#include <algorithm>
#include <concepts>
#include <utility>

#include "base/bytes.hpp"
#include "interop/zip/fields.hpp"

namespace cfck::interop {
namespace {

constexpr std::uint64_t kContentAlignment = 64;
constexpr std::uint16_t kVersion = 45;                 // the first with zip64
constexpr std::uint16_t kFlags = 1 << 3 | 1 << 11;     // the checksum follows; names are UTF-8
constexpr std::uint16_t kFirstDay = 1 << 5 | 1;        // 1980-01-01
constexpr std::uint16_t kPaddingField = 0xD935;        // as Android's zipalign does
constexpr std::uint32_t kRegularFile = 0100644 << 16;  // the mode on Unix
constexpr std::uint16_t kMadeOnUnix = 3 << 8;

class Bytes {
 public:
  template <std::unsigned_integral T>
  Bytes& add(T value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    store<T>(bytes_.data() + at, value);
    return *this;
  }
  Bytes& add(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Bytes& add_zeros(std::size_t n_bytes) {
    bytes_.resize(bytes_.size() + n_bytes);
    return *this;
  }
  std::size_t size() const { return bytes_.size(); }
  operator ByteView() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

std::uint16_t short_size(std::size_t n) { return static_cast<std::uint16_t>(n); }
std::uint32_t capped(std::uint64_t value) {
  return value < kIn64 ? static_cast<std::uint32_t>(value) : kIn64;
}

// What both headers of a member have: version, flags, method, time, date.
void add_common(Bytes& header) {
  header.add(kVersion).add(kFlags).add(std::uint16_t{0}).add(std::uint16_t{0}).add(kFirstDay);
}

}  // namespace

ZipSink::ZipSink(ByteSink& out, std::vector<ZipItem> items) : out_(out), items_(std::move(items)) {
  written_.reserve(items_.size());
}

Result<void> ZipSink::put(ByteView bytes) {
  at_ += bytes.size();
  return out_.write(bytes);
}

Result<void> ZipSink::begin_member() {
  const ZipItem& item = items_[written_.size()];
  written_.push_back({at_, 0});
  in_member_ = true;
  left_bytes_ = item.n_bytes;
  const bool in_64 = item.n_bytes >= kIn64;
  Bytes header;
  header.add(std::string_view("PK\x03\x04"));
  add_common(header);
  header.add(std::uint32_t{0}).add(capped(item.n_bytes)).add(capped(item.n_bytes));
  header.add(short_size(item.name.size()));
  const std::uint64_t field_bytes = in_64 ? 20 : 0;
  const std::uint64_t unpadded = at_ + header.size() + 2 + item.name.size() + field_bytes + 4;
  const std::uint64_t padding =
      (kContentAlignment - unpadded % kContentAlignment) % kContentAlignment;
  header.add(short_size(field_bytes + 4 + padding)).add(item.name);
  if (in_64) {
    header.add(std::uint16_t{1}).add(std::uint16_t{16}).add(item.n_bytes).add(item.n_bytes);
  }
  header.add(kPaddingField).add(short_size(padding)).add_zeros(padding);
  return put(header);
}

Result<void> ZipSink::end_member() {
  const ZipItem& item = items_[written_.size() - 1];
  in_member_ = false;
  Bytes descriptor;
  descriptor.add(std::string_view("PK\x07\x08")).add(written_.back().crc);
  if (item.n_bytes >= kIn64) {
    descriptor.add(item.n_bytes).add(item.n_bytes);
  } else {
    descriptor.add(capped(item.n_bytes)).add(capped(item.n_bytes));
  }
  return put(descriptor);
}

Result<void> ZipSink::advance() {
  while (true) {
    if (in_member_ && left_bytes_ > 0) return {};
    if (in_member_) CFCK_TRY(end_member());
    if (written_.size() == items_.size()) return {};
    CFCK_TRY(begin_member());
  }
}

Result<void> ZipSink::write(ByteView bytes) {
  while (!bytes.empty()) {
    CFCK_TRY(advance());
    if (!in_member_) return invalid_argument("the members of the zip file have fewer bytes");
    const ByteView part = bytes.first(std::min<std::uint64_t>(bytes.size(), left_bytes_));
    std::uint32_t& crc = written_.back().crc;
    crc = static_cast<std::uint32_t>(
        ::crc32_z(crc, reinterpret_cast<const Bytef*>(part.data()), part.size()));
    CFCK_TRY(put(part));
    left_bytes_ -= part.size();
    bytes = bytes.subspan(part.size());
  }
  return {};
}

Result<void> ZipSink::finish() {
  CFCK_TRY(advance());
  if (in_member_) return invalid_argument("the members of the zip file have more bytes");
  const std::uint64_t start_bytes = at_;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const ZipItem& item = items_[i];
    const std::uint64_t local_bytes = written_[i].local_bytes;
    Bytes field;
    if (item.n_bytes >= kIn64) field.add(item.n_bytes).add(item.n_bytes);
    if (local_bytes >= kIn64) field.add(local_bytes);
    Bytes entry;
    entry.add(std::string_view("PK\x01\x02")).add(std::uint16_t{kMadeOnUnix | kVersion});
    add_common(entry);
    entry.add(written_[i].crc).add(capped(item.n_bytes)).add(capped(item.n_bytes));
    entry.add(short_size(item.name.size()))
        .add(short_size(field.size() > 0 ? field.size() + 4 : 0));
    entry.add_zeros(2 + 2 + 2).add(kRegularFile).add(capped(local_bytes)).add(item.name);
    if (field.size() > 0) entry.add(std::uint16_t{1}).add(short_size(field.size()));
    CFCK_TRY(put(entry));
    if (field.size() > 0) CFCK_TRY(put(field));
  }
  const std::uint64_t n_bytes = at_ - start_bytes;
  const std::uint64_t n_members = items_.size();
  Bytes end;
  if (n_members >= kManyMembers || n_bytes >= kIn64 || start_bytes >= kIn64) {
    end.add(std::string_view("PK\x06\x06")).add(std::uint64_t{44}).add(kVersion).add(kVersion);
    end.add(std::uint32_t{0}).add(std::uint32_t{0}).add(n_members).add(n_members);
    end.add(n_bytes).add(start_bytes);
    end.add(std::string_view("PK\x06\x07")).add(std::uint32_t{0}).add(at_).add(std::uint32_t{1});
  }
  const auto n_short = static_cast<std::uint16_t>(std::min<std::uint64_t>(n_members, kManyMembers));
  end.add(std::string_view("PK\x05\x06")).add(std::uint16_t{0}).add(std::uint16_t{0});
  end.add(n_short).add(n_short).add(capped(n_bytes)).add(capped(start_bytes));
  end.add(std::uint16_t{0});
  return put(end);
}

}  // namespace cfck::interop
