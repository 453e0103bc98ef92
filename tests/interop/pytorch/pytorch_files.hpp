// Small zip files and pickles, made byte by byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cfck/archive.hpp"

namespace cfck::test {

template <class T>
std::string little(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

struct Member {
  std::string name;
  std::string content;
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
  std::uint32_t claimed_bytes = 0;  // 0: those of the content
};

// Writes members one after another, and the directory. Checksums are 0: nobody reads them.
inline std::string zip_file(const std::vector<Member>& members) {
  std::string file;
  std::string directory;
  for (const Member& member : members) {
    const auto n_bytes = static_cast<std::uint32_t>(member.content.size());
    const std::uint32_t claimed = member.claimed_bytes == 0 ? n_bytes : member.claimed_bytes;
    const std::string common = little<std::uint16_t>(20) + little(member.flags) +
                               little(member.method) + std::string(8, '\0') + little(claimed) +
                               little(claimed) +
                               little(static_cast<std::uint16_t>(member.name.size()));
    directory += "PK\x01\x02" + little<std::uint16_t>(20) + common + std::string(12, '\0') +
                 little(static_cast<std::uint32_t>(file.size())) + member.name;
    file += "PK\x03\x04" + common + little<std::uint16_t>(0) + member.name + member.content;
  }
  const auto n_members = static_cast<std::uint16_t>(members.size());
  return file + directory + "PK\x05\x06" + std::string(4, '\0') + little(n_members) +
         little(n_members) + little(static_cast<std::uint32_t>(directory.size())) +
         little(static_cast<std::uint32_t>(file.size())) + std::string(2, '\0');
}

// Opcodes of pickles.
inline std::string text(const std::string& characters) {
  return "X" + little(static_cast<std::uint32_t>(characters.size())) + characters;
}
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string integer(std::int32_t value) { return "J" + little(value); }
inline std::string tuple(const std::string& items) { return "(" + items + "t"; }

// A storage of floats.
inline std::string storage(const std::string& key, std::int32_t n_elems,
                           const std::string& type = "FloatStorage") {
  return tuple(text("storage") + global("torch", type) + text(key) + text("cpu") +
               integer(n_elems)) +
         "Q";
}
// A tensor of two dimensions.
inline std::string tensor(const std::string& of_storage, std::int32_t first, std::int32_t rows,
                          std::int32_t columns, std::int32_t row_stride,
                          std::int32_t column_stride) {
  return global("torch._utils", "_rebuild_tensor_v2") +
         tuple(of_storage + integer(first) + tuple(integer(rows) + integer(columns)) +
               tuple(integer(row_stride) + integer(column_stride)) + "\x89" +
               global("collections", "OrderedDict") + ")R") +
         "R";
}
// {"w": VALUE}
inline std::string dict_of(const std::string& value) {
  return "\x80\x02}" + text("w") + value + "s.";
}

// A file of torch.save with this pickle and one storage "0" of the floats 0, 1, 2...
inline std::string pytorch_file(const std::string& pickle, std::size_t n_floats = 12) {
  std::string floats;
  for (std::size_t i = 0; i < n_floats; ++i) floats += little(static_cast<float>(i));
  return zip_file({{"run/data.pkl", pickle},
                   {"run/byteorder", "little"},
                   {"run/data/0", floats},
                   {"run/version", "3\n"}});
}

inline Result<std::unique_ptr<TensorArchive>> open_bytes(const std::string& bytes) {
  const auto view = std::as_bytes(std::span(bytes));
  return TensorArchive::open(
      std::make_unique<OwnedMemorySource>(std::vector<std::byte>(view.begin(), view.end())));
}

}  // namespace cfck::test
