#include "interop/pytorch/pytorch_file.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "interop/pytorch/pickle_reader.hpp"
#include "interop/pytorch/pickle_tree.hpp"
#include "interop/zip/zip_directory.hpp"

namespace cfck::interop {
namespace {

constexpr std::string_view kPickleName = "data.pkl";

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

  Result<std::vector<std::byte>> read(const ZipMember& member, std::uint64_t max_bytes) const {
    if (!member.stored) {
      return unsupported("the member '" + escaped(member.name) +
                         "' is compressed, which torch.save does not do; load the file with "
                         "torch.load in Python and save it again");
    }
    if (member.n_bytes > max_bytes) {
      return limit_exceeded("the member '" + escaped(member.name) + "' has " +
                            std::to_string(member.n_bytes) + " bytes, more than cfck reads of it");
    }
    std::vector<std::byte> bytes(member.n_bytes);
    CFCK_TRY(source_->read_at(member.offset_bytes, bytes));
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

// Returns where the elements of each storage start in the file. Error: kCorrupt for a storage that
// is not in the file as the pickle says.
Result<std::vector<std::uint64_t>> find_storages(const Members& members, const Pickle& pickle) {
  std::vector<std::uint64_t> places;
  for (const PickledStorage& storage : pickle.storages) {
    const ZipMember* const member = members.find("data/" + storage.key);
    if (member == nullptr) {
      return corrupt("the pickle refers to the storage '" + escaped(storage.key) +
                     "', which the file does not have");
    }
    if (!member->stored) {
      return unsupported("the storage '" + escaped(storage.key) +
                         "' is compressed, which torch.save does not do; load the file with "
                         "torch.load in Python and save it again");
    }
    const std::uint64_t elem_bytes = storage.is_typed ? bits_per_element(storage.dtype) / 8 : 1;
    if (member->n_bytes / elem_bytes < storage.n_elems) {
      return truncated("the storage '" + escaped(storage.key) + "' has " +
                       std::to_string(member->n_bytes) + " bytes and should have " +
                       std::to_string(storage.n_elems) + " elements of " +
                       std::to_string(elem_bytes) + "; download the file again")
          .at_byte(member->offset_bytes);
    }
    places.push_back(member->offset_bytes);
  }
  return places;
}

}  // namespace

Result<PytorchFile> read_pytorch_file(const ByteSource& source) {
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
  if (!pickle) return in_pickle(pickle.error(), *member);
  CFCK_TRY_ASSIGN(const std::vector<std::uint64_t> storages, find_storages(members, *pickle));
  CFCK_TRY_ASSIGN(PickleTree tree, tree_of(*pickle));
  pickle->nodes.clear();  // memory for the text
  PytorchFile file;
  CFCK_TRY_ASSIGN(file.skeleton, format_checkpoint(tree.checkpoint));
  file.tensors.reserve(tree.tensors.size());
  for (NamedTensor& named : tree.tensors) {
    const PickledTensor& tensor = pickle->tensors[named.tensor];
    file.tensors.push_back(
        {std::move(named.name), tensor.dtype, tensor.shape, tensor.strides,
         storages[tensor.storage] + tensor.first_elem * (bits_per_element(tensor.dtype) / 8),
         tensor.storage});
  }
  file.members = members.all();
  return file;
}

}  // namespace cfck::interop
