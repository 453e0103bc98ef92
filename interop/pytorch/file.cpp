#include "interop/pytorch/file.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "interop/pytorch/pickle/reader.hpp"

namespace cfck::interop {
namespace {

constexpr std::string_view kPickleName = "data.pkl";
// For decompressed parts of members.

// The members of the file below its one folder.
class Members {
 public:
  static Result<Members> open(const ByteSource& source) {
    Members members(source);
    CFCK_TRY_ASSIGN(members.all_, read_zip_directory(source));
    for (const ZipMember& member : members.all_) {
      if (member.name != kPickleName && !member.name.ends_with("/data.pkl")) continue;
      members.folder_ = member.name.substr(0, member.name.size() - kPickleName.size());
      break;
    }
    for (const ZipMember& member : members.all_) {
      if (member.name.starts_with(members.folder_)) {
        members.by_name_.emplace(std::string_view(member.name).substr(members.folder_.size()),
                                 &member);
      }
    }
    return members;
  }

  const std::vector<ZipMember>& all() const { return all_; }
  const ZipMember* find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  bool has_code() const {
    const auto first = by_name_.lower_bound("code/");
    return find("constants.pkl") != nullptr ||
           (first != by_name_.end() && first->first.starts_with("code/"));
  }

  // Errors: kLimitExceeded, those of the file.
  Result<std::vector<std::byte>> read(const ZipMember& member, std::uint64_t max_bytes) const {
    if (member.n_bytes > max_bytes) {
      return limit_exceeded("the member '" + escaped(member.name) + "' has " +
                            std::to_string(member.n_bytes) + " bytes, more than cfck reads of it");
    }
    std::vector<std::byte> bytes(member.n_bytes);
    if (member.stored) {
      CFCK_TRY(source_->read_at(member.offset_bytes, bytes));
      return bytes;
    }
    BlockCache cache(0);
    const InflatedMember inflated(*source_, member, cache);
    if (!bytes.empty()) CFCK_TRY(inflated.read_at(0, bytes));
    return bytes;
  }

 private:
  explicit Members(const ByteSource& source) : source_(&source) {}

  const ByteSource* source_;
  std::vector<ZipMember> all_;
  std::string folder_;
  std::map<std::string_view, const ZipMember*> by_name_;
};

Result<void> check_byte_order(const Members& members) {
  const ZipMember* const member = members.find("byteorder");
  if (member == nullptr) return {};
  CFCK_TRY_ASSIGN(const auto bytes, members.read(*member, 64));
  const std::string_view order(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (order == "little") return {};
  return unsupported("the file was written on a machine of byte order '" + escaped(order) +
                     "'; load it with torch.load in Python and save it again");
}

Error in_pickle(Error error, const ZipMember& member) {
  error.message = "the member '" + escaped(member.name) + "': " + error.message;
  if (error.byte_offset) *error.byte_offset += member.offset_bytes;
  return error;
}

// The places of storages. Another program may have compressed them; torch.save never does.
struct Storages {
  StoragePlaces places;
  std::unique_ptr<BlockCache> cache = std::make_unique<BlockCache>();
  std::vector<std::unique_ptr<InflatedMember>> inflated;
};

Storages find_storages(const ByteSource& source, const Members& members, const Pickle& pickle) {
  Storages storages;
  for (const PickledStorage& storage : pickle.storages) {
    const ZipMember* const member = members.find("data/" + storage.key);
    if (member == nullptr || storages.places.contains(storage.key)) continue;
    StoragePlace place{nullptr, member->offset_bytes, member->n_bytes};
    if (!member->stored) {
      storages.inflated.push_back(
          std::make_unique<InflatedMember>(source, *member, *storages.cache));
      place = {storages.inflated.back().get(), 0, member->n_bytes};
    }
    storages.places.emplace(storage.key, place);
  }
  return storages;
}

}  // namespace

Result<PytorchFile> read_pytorch_file(const ByteSource& source, bool only_tensors) {
  CFCK_TRY_ASSIGN(const Members members, Members::open(source));
  const ZipMember* const member = members.find(kPickleName);
  if (member == nullptr) {
    return unsupported(
        "the zip file has no member data.pkl, so it is no file of torch.save; unpack "
        "it first");
  }
  if (members.has_code()) {
    return unsupported(
        "the file is a TorchScript archive, which has code beside its tensors; load it with "
        "torch.jit.load in Python and save its state_dict()");
  }
  CFCK_TRY(check_byte_order(members));
  CFCK_TRY_ASSIGN(const auto bytes, members.read(*member, kMaxPickleBytes));
  auto pickle = read_pickle(bytes);
  if (!pickle) return in_pickle(std::move(pickle).error(), *member);
  Storages storages = find_storages(source, members, *pickle);
  auto file = contents_of(*std::move(pickle), storages.places, only_tensors);
  if (!file) return in_pickle(std::move(file).error(), *member);
  file->cache = std::move(storages.cache);
  file->inflated = std::move(storages.inflated);
  file->members = members.all();
  return file;
}

}  // namespace cfck::interop
