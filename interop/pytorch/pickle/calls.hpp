// The functions that a pickle of PyTorch may name, understood one by one.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "cfck/status.hpp"
#include "interop/pytorch/pickle/values.hpp"

namespace cfck::interop {

// The most tuples within each other in a key (spec/checkpoint.md, section 3).
inline constexpr int kMaxKeyDepth = 16;

// The pickle, or the tree that it describes, has more than kMaxPickledValues.
Error too_many_values();

// Makes values of what a pickle says. Errors have no byte: the reader adds it.
class PickleCalls {
 public:
  // `max_items` bounds the items and characters of all values together: a few bytes of a pickle may
  // ask for a copy of a large value, again and again.
  PickleCalls(Pickle& pickle, std::uint64_t max_items) : pickle_(pickle), left_(max_items) {}

  // Error: kLimitExceeded where the bound was passed.
  Result<void> check_size() const;

  // Adds a value.
  NodeId add(Node node);
  NodeId add(NodeKind kind, std::vector<NodeId> items);
  const Node& at(NodeId id) const { return pickle_.nodes[id]; }
  Node& at(NodeId id) { return pickle_.nodes[id]; }

  // Returns the value for "module name", which byte `at_byte` names: a class without meaning for
  // what is not known.
  Result<NodeId> global(std::string_view module, std::string_view name, std::uint64_t at_byte);
  // Returns what the global makes of the arguments, a tuple; an object without a value where that
  // is not known or not supported.
  Result<NodeId> call(NodeId function, NodeId arguments);
  // Returns the storage that a persistent id names.
  Result<NodeId> storage(NodeId persistent_id);
  // Applies the state of an object: the attributes of an OrderedDict, parts of an unknown object.
  Result<void> build(NodeId object, NodeId state);
  // Checks that a value can be a key of a dict or an element of a set.
  Result<void> check_key(NodeId key, int depth = 0) const;

 private:
  Result<NodeId> known(const std::string& name, const Node& arguments);
  NodeId object_of(NodeId function, NodeId arguments);
  // Adds a value that is an element of a list of the pickle's: a tensor or a storage.
  NodeId add_listed(NodeKind kind, std::size_t index);
  NodeId refused(std::string text, std::vector<NodeId> parts);

  // tensors.cpp
  Result<NodeId> tensor(const Node& arguments, std::string_view version);
  Result<void> set_values(PickledTensor& tensor, const PickledStorage& storage,
                          std::string_view torch_dtype);
  Result<NodeId> typed_tensor(const Node& arguments);
  Result<NodeId> meta_tensor(const Node& arguments);
  Result<NodeId> sparse_tensor(const Node& arguments);
  Result<NodeId> parameter(const Node& arguments, bool has_state);
  Result<NodeId> layout(const Node& arguments);
  Result<std::vector<std::uint64_t>> sizes(NodeId tuple) const;
  Result<PickledStorage> storage_of(const Node& id) const;
  // Sets attributes by a dict, or by a pair of None or a dict, and a dict of slots.
  Result<void> set_attributes(NodeId object, NodeId state);

  Result<NodeId> ordered_dict(const Node& arguments);
  Result<NodeId> counter(const Node& arguments);
  Result<NodeId> set(const Node& arguments, NodeKind kind);
  Result<NodeId> size(const Node& arguments);
  Result<NodeId> device(const Node& arguments);
  Result<NodeId> complex(const Node& arguments);
  Result<NodeId> encoded(const Node& arguments);
  Result<NodeId> bytearray(const Node& arguments);
  // Returns the argument, if it is there and of this kind; else nullptr.
  const Node* argument(const Node& arguments, std::size_t index, NodeKind kind) const;

  // Counts towards the bound.
  void spend(std::uint64_t n_items) const { left_ = n_items < left_ ? left_ - n_items : 0; }

  Pickle& pickle_;
  mutable std::uint64_t left_;
  std::map<std::string, std::size_t, std::less<>> storages_;  // by key
};

// Errors of arguments that PyTorch does not give.
Error bad_arguments(std::string_view function);

}  // namespace cfck::interop
