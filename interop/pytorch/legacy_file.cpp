// Files of PyTorch before 1.6: five pickles, and the elements of storages behind them.
#include <algorithm>
#include <utility>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "interop/pytorch/file.hpp"
#include "interop/pytorch/pickle/reader.hpp"

namespace cfck::interop {
namespace {

// The number that the first pickle has, as a pickle of protocol 2 or newer writes it, and of
// protocol 0 or 1.
constexpr std::string_view kMagicInBytes = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
constexpr std::string_view kMagicInDecimal = "L119547037146038801333356L\n.";
constexpr std::string_view kMagicDigits = "0x1950a86a20f9469cfc6c";
constexpr std::int64_t kProtocolVersion = 1001;
// A number of elements stands before those of each storage.
constexpr std::uint64_t kCountBytes = 8;
// The part of a file that is read at first.
constexpr std::uint64_t kFirstBytes = std::uint64_t{1} << 16;

// Reads one pickle after another.
class Pickles {
 public:
  explicit Pickles(const ByteSource& source) : source_(source) {}

  std::uint64_t at() const { return at_; }

  // A pickle does not say how long it is: as much is read as it turns out to need.
  Result<Pickle> next() {
    const std::uint64_t rest = source_.size() - at_;
    for (std::uint64_t n_bytes = std::min(kFirstBytes, rest);; n_bytes *= 8) {
      n_bytes = std::min({n_bytes, rest, kMaxPickleBytes});
      std::vector<std::byte> bytes(n_bytes);
      CFCK_TRY(source_.read_at(at_, bytes));
      auto pickle = read_pickle_at_start(bytes);
      if (pickle) {
        at_ += pickle->n_bytes;
        return pickle;
      }
      Error error = std::move(pickle).error();
      if (error.code == ErrorCode::kTruncated && n_bytes < rest) {
        if (n_bytes < kMaxPickleBytes) continue;
        return limit_exceeded("a pickle of the file has more than 64 MiB").at_byte(at_);
      }
      if (error.byte_offset) *error.byte_offset += at_;
      return error;
    }
  }

 private:
  const ByteSource& source_;
  std::uint64_t at_ = 0;
};

Error damaged(std::string_view what, std::uint64_t at_byte) {
  return corrupt("the file of PyTorch has " + std::string(what) + "; download it again")
      .at_byte(at_byte);
}

// The magic number, the version and what machine wrote the file.
Result<void> check_start(Pickles& pickles) {
  CFCK_TRY_ASSIGN(const Pickle magic, pickles.next());
  if (magic.nodes[magic.root].text != kMagicDigits) return damaged("another magic number", 0);
  const std::uint64_t at = pickles.at();
  CFCK_TRY_ASSIGN(const Pickle version, pickles.next());
  if (version.nodes[version.root].integer != kProtocolVersion) {
    return damaged("another version than 1001", at);
  }
  CFCK_TRY_ASSIGN(const Pickle machine, pickles.next());
  const Node& facts = machine.nodes[machine.root];
  for (std::size_t i = 0; i + 1 < facts.items.size(); i += 2) {
    if (machine.nodes[facts.items[i]].text != "little_endian") continue;
    if (machine.nodes[facts.items[i + 1]].integer != 0) return {};
    return unsupported(
        "the file was written on a machine of byte order 'big'; load it with torch.load in Python "
        "and save it again");
  }
  return damaged("no byte order", at);
}

// Storages lie in the order of the last pickle, a list of their keys.
Result<StoragePlaces> find_storages(const ByteSource& source, const Pickle& pickle,
                                    const Pickle& keys, std::uint64_t at) {
  std::map<std::string_view, std::uint64_t> elem_bytes;
  for (const PickledStorage& storage : pickle.storages) {
    // Storages without elements may share a key, whatever their dtypes are.
    std::uint64_t& known = elem_bytes[storage.key];
    if (storage.n_elems == 0 || known == storage.elem_bytes) continue;
    if (std::exchange(known, storage.elem_bytes) != 0) {
      return damaged("a storage of two dtypes, '" + escaped(storage.key) + "'", at);
    }
  }
  StoragePlaces places;
  for (const NodeId id : keys.nodes[keys.root].items) {
    const std::string& key = keys.nodes[id].text;
    const auto found = elem_bytes.find(key);
    if (found == elem_bytes.end()) {
      return damaged("a storage '" + escaped(key) + "' that its pickle does not have", at);
    }
    if (source.size() - at < kCountBytes) {
      return truncated("the file ends before its storage '" + escaped(key) + "'; download it again")
          .at_byte(at);
    }
    std::byte count[kCountBytes];
    CFCK_TRY(source.read_at(at, count));
    at += kCountBytes;
    const auto n_elems = load<std::uint64_t>(count);
    const std::uint64_t each = std::max<std::uint64_t>(found->second, 1);
    if (n_elems > (source.size() - at) / each) {
      return truncated("the file ends in its storage '" + escaped(key) + "'; download it again")
          .at_byte(at);
    }
    const std::uint64_t n_bytes = n_elems * each;
    if (!places.try_emplace(key, StoragePlace{nullptr, at, n_bytes}).second) {
      return damaged("the storage '" + escaped(key) + "' twice", at);
    }
    at += n_bytes;
  }
  if (at == source.size()) return places;
  return unsupported(
             "there are bytes behind the last storage of the file: it has several objects of "
             "torch.save, one after another; load each with torch.load in Python")
      .at_byte(at);
}

}  // namespace

bool begins_legacy_file(std::string_view head) {
  constexpr std::size_t kMaxBefore = 11;  // the protocol, and the length of a frame
  if (head.starts_with(kMagicInDecimal)) return true;
  return head.starts_with('\x80') &&
         head.substr(0, kMaxBefore + kMagicInBytes.size()).find(kMagicInBytes) !=
             std::string_view::npos;
}

Result<PytorchFile> read_legacy_file(const ByteSource& source, bool only_tensors) {
  Pickles pickles(source);
  CFCK_TRY(check_start(pickles));
  CFCK_TRY_ASSIGN(Pickle pickle, pickles.next());
  CFCK_TRY_ASSIGN(const Pickle keys, pickles.next());
  if (keys.nodes[keys.root].kind != NodeKind::kList) {
    return damaged("no list of its storages", pickles.at());
  }
  CFCK_TRY_ASSIGN(const StoragePlaces places, find_storages(source, pickle, keys, pickles.at()));
  return contents_of(std::move(pickle), places, only_tensors);
}

}  // namespace cfck::interop
