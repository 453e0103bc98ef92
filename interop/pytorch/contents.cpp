// Makes tensors from a pickle and the places of its storages.
#include <algorithm>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "interop/pytorch/file.hpp"
#include "interop/pytorch/module_versions.hpp"

namespace cfck::interop {
namespace {

constexpr std::size_t kMaxNoted = 20;

// Returns where each storage of the pickle starts. Error: kCorrupt for a storage that is not in the
// file as the pickle says.
Result<std::vector<StoragePlace>> find_storages(const StoragePlaces& places, const Pickle& pickle) {
  std::vector<StoragePlace> found;
  for (const PickledStorage& storage : pickle.storages) {
    const auto place = places.find(storage.key);
    if (place == places.end()) {
      return corrupt("the pickle refers to the storage '" + escaped(storage.key) +
                     "', which the file does not have");
    }
    const std::uint64_t n_elems = place->second.n_bytes / storage.elem_bytes;
    if (n_elems < storage.n_elems || n_elems - storage.n_elems < storage.first_elem) {
      return truncated("the storage '" + escaped(storage.key) + "' has " +
                       std::to_string(place->second.n_bytes) + " bytes and should have " +
                       std::to_string(storage.n_elems) + " elements of " +
                       std::to_string(storage.elem_bytes) + "; download the file again")
          .at_byte(place->second.offset_bytes);
    }
    found.push_back(place->second);
    found.back().offset_bytes += storage.first_elem * storage.elem_bytes;
  }
  return found;
}

// Returns a number for each storage, equal for those of one key.
std::vector<std::size_t> families_of(const Pickle& pickle) {
  std::map<std::string_view, std::size_t> numbers;
  std::vector<std::size_t> families;
  for (const PickledStorage& storage : pickle.storages) {
    families.push_back(numbers.try_emplace(storage.key, numbers.size()).first->second);
  }
  return families;
}

std::vector<std::string> notes_of(const PickleTree& tree) {
  std::vector<std::string> notes;
  if (tree.n_left_out > 0) {
    std::string note = "left out of the file: ";
    const std::size_t n_named = std::min(tree.left_out.size(), kMaxNoted);
    for (std::size_t i = 0; i < n_named; ++i) {
      const LeftOutValue& value = tree.left_out[i];
      note += (i > 0 ? ", '" : "'") + escaped(value.path) + "' (" + escaped(value.what) + ")";
    }
    if (tree.n_left_out > n_named) {
      note += " and " + std::to_string(tree.n_left_out - n_named) + " more";
    }
    notes.push_back(std::move(note));
  }
  if (tree.n_plain > 0) {
    notes.push_back("left out of the file: " + std::to_string(tree.n_plain) +
                    (tree.n_plain == 1 ? " plain value" : " plain values") +
                    ", such as numbers and text");
  }
  return notes;
}

}  // namespace

Result<PytorchFile> contents_of(Pickle pickle, const StoragePlaces& places, bool only_tensors) {
  CFCK_TRY_ASSIGN(const std::vector<StoragePlace> storages, find_storages(places, pickle));
  const std::vector<std::size_t> families = families_of(pickle);
  CFCK_TRY_ASSIGN(PickleTree tree, tree_of(pickle, only_tensors));
  pickle.nodes.clear();  // memory for the text
  PytorchFile file;
  if (only_tensors) {
    file.notes = notes_of(tree);
  } else {
    CFCK_TRY_ASSIGN(file.skeleton, format_checkpoint(tree.checkpoint));
    if (std::string versions = module_versions(tree.checkpoint); !versions.empty()) {
      file.metadata.emplace(kModuleVersionsKey, std::move(versions));
    }
  }
  file.tensors.reserve(tree.tensors.size());
  for (NamedTensor& named : tree.tensors) {
    const PickledTensor& tensor = pickle.tensors[named.tensor];
    const StoragePlace& place = storages[tensor.storage];
    file.tensors.push_back({std::move(named.name), tensor.dtype, tensor.shape, tensor.strides,
                            place.source, place.offset_bytes + tensor.offset_bytes,
                            families[tensor.storage], tensor.negated, tensor.conjugated});
  }
  return file;
}

}  // namespace cfck::interop
