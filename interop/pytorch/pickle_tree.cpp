#include "interop/pytorch/pickle_tree.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/text.hpp"
#include "interop/pytorch/pickle_calls.hpp"

namespace cfck::interop {
namespace {

using Kind = CheckpointContainer::Kind;

constexpr std::size_t kMaxDepth = 1000;  // spec/checkpoint.md, section 3
constexpr std::size_t kMaxPathBytes = 400;

std::optional<Kind> container_kind(const Node& node) {
  switch (node.kind) {
    case NodeKind::kTuple:
      return Kind::kTuple;
    case NodeKind::kList:
      return Kind::kList;
    case NodeKind::kDict:
      return Kind::kDict;
    case NodeKind::kOrderedDict:
      return node.has_metadata ? Kind::kStateDict : Kind::kOrderedDict;
    case NodeKind::kCounter:
      return Kind::kCounter;
    case NodeKind::kSet:
      return Kind::kSet;
    case NodeKind::kFrozenset:
      return Kind::kFrozenset;
    default:
      return std::nullopt;
  }
}

// A container whose items are being added.
struct Open {
  NodeId id = 0;
  CheckpointContainer container;
  std::size_t next = 0;  // in the node's items
  std::string step;      // of the item at hand
  bool in_metadata = false;
};

// Walks the values without recursion: they may be nested deeper than the stack.
class TreeBuilder {
 public:
  explicit TreeBuilder(const Pickle& pickle) : pickle_(pickle) {}

  Result<PickleTree> run() {
    CFCK_TRY_ASSIGN(std::optional<CheckpointValue> value, start(pickle_.root));
    while (!open_.empty()) {
      CFCK_TRY_ASSIGN(const bool complete, fill());
      if (!complete) continue;
      value = close();
      if (!open_.empty()) put(*std::exchange(value, std::nullopt));
    }
    tree_.checkpoint.root = *std::move(value);
    return std::move(tree_);
  }

 private:
  const Node& node(NodeId id) const { return pickle_.nodes[id]; }

  Error refuse(const std::string& what) const {
    std::string path = "checkpoint";
    for (const Open& container : open_) path += "['" + escaped(container.step) + "']";
    if (path.size() > kMaxPathBytes) path = path.substr(0, kMaxPathBytes) + "...";
    return unsupported(path + " " + what);
  }

  // Counts a value and its characters: a pickle may name a large one again and again, and each time
  // is a copy in the tree.
  void spend(NodeId id) const {
    left_values_ -= left_values_ > 0 ? 1 : 0;
    left_bytes_ -= std::min<std::uint64_t>(left_bytes_, node(id).text.size());
  }
  Result<void> check_size() const {
    if (left_values_ == 0) return too_many_values();
    if (left_bytes_ > 0) return {};
    return limit_exceeded(
        "the texts and bytes of the pickle take more than 64 MiB; store long ones as tensors");
  }

  // Returns the value of a node; nullopt for a container that was opened.
  Result<std::optional<CheckpointValue>> start(NodeId id) {
    spend(id);
    CFCK_TRY(check_size());
    const auto kind = container_kind(node(id));
    if (!kind) {
      CFCK_TRY_ASSIGN(CheckpointValue value, plain(id));
      return std::optional(std::move(value));
    }
    if (const auto done = done_.find(id); done != done_.end()) {
      return std::optional(CheckpointValue{ContainerReference{done->second}});
    }
    if (!open_ids_.insert(id).second) return refuse("contains itself; store a tree without cycles");
    if (open_.size() == kMaxDepth) return refuse("is more than 1000 containers deep");
    Open& opened = open_.emplace_back();
    opened.id = id;
    opened.container.kind = *kind;
    const std::size_t n_items = node(id).items.size();
    if (n_items <= left_values_) {
      opened.container.values.reserve(opened.container.has_keys() ? n_items / 2 : n_items);
    }
    return std::optional<CheckpointValue>();
  }

  // Adds items up to the next container, which it opens. Returns true at the end.
  Result<bool> fill() {
    const std::size_t place = open_.size() - 1;
    const Node& source = node(open_[place].id);
    const bool keyed = open_[place].container.has_keys();
    const bool is_set = source.kind == NodeKind::kSet || source.kind == NodeKind::kFrozenset;
    while (open_[place].next < source.items.size()) {
      Open& open = open_[place];
      NodeId item = source.items[open.next];
      open.step = std::to_string(open.next++);
      if (is_set) {
        spend(item);
        open.container.values.push_back(key_of(item));
        CFCK_TRY(check_size());
        continue;
      }
      if (keyed) {
        spend(item);
        open.container.keys.push_back(key_of(item));
        open.step = checkpoint_step(open.container.keys.back());
        item = source.items[open.next++];
      }
      CFCK_TRY_ASSIGN(std::optional<CheckpointValue> value, start(item));
      if (!value) return false;
      put(*std::move(value));
    }
    if (source.has_metadata && !open_[place].in_metadata) {
      open_[place].in_metadata = true;
      open_[place].step = "_metadata";
      CFCK_TRY_ASSIGN(std::optional<CheckpointValue> value, start(source.metadata));
      if (!value) return false;
      put(*std::move(value));
    }
    return true;
  }

  // Adds a value to the innermost open container.
  void put(CheckpointValue value) {
    Open& open = open_.back();
    if (open.in_metadata) {
      open.container.metadata = std::move(value);
    } else {
      open.container.values.push_back(std::move(value));
    }
  }

  CheckpointValue close() {
    Open open = std::move(open_.back());
    open_.pop_back();
    open_ids_.erase(open.id);
    const std::size_t place = tree_.checkpoint.containers.size();
    tree_.checkpoint.containers.push_back(std::move(open.container));
    done_.emplace(open.id, place);
    return {ContainerReference{place}};
  }

  Result<CheckpointValue> plain(NodeId id) {
    const Node& value = node(id);
    switch (value.kind) {
      case NodeKind::kTensor:
        return CheckpointValue{reference(id, TensorReference::Kind::kTensor, false)};
      case NodeKind::kParameter:
        return parameter(id);
      case NodeKind::kBytes:
        return CheckpointValue{CheckpointBytes{value.text}};
      case NodeKind::kComplex:
        return CheckpointValue{std::complex<double>(value.real, value.imaginary)};
      case NodeKind::kDType:
        return CheckpointValue{TorchDType{value.text}};
      case NodeKind::kDevice:
        return CheckpointValue{TorchDevice{value.text}};
      case NodeKind::kSize:
        return size(value);
      case NodeKind::kGlobal:
        return refuse("is the class or function " + escaped(value.text) + ", which is no value");
      case NodeKind::kStorage:
        return refuse("is a storage without a tensor; store a tensor of it");
      default:
        return key_of(id);
    }
  }

  CheckpointValue key_of(NodeId id) const {
    const Node& key = node(id);
    switch (key.kind) {
      case NodeKind::kBool:
        return {key.integer != 0};
      case NodeKind::kInteger:
        return {key.integer};
      case NodeKind::kBigInteger:
        return {BigInteger{key.text}};
      case NodeKind::kFloat:
        return {key.real};
      case NodeKind::kText:
        return {key.text};
      case NodeKind::kTuple: {
        TupleKey tuple;
        for (const NodeId item : key.items) {
          spend(item);
          if (left_values_ == 0 || left_bytes_ == 0) break;  // an error follows
          tuple.items.push_back(key_of(item));
        }
        return {std::move(tuple)};
      }
      default:
        return {};
    }
  }

  static CheckpointValue size_value(std::vector<std::int64_t> sizes) {
    return {TorchSize{std::move(sizes)}};
  }
  Result<CheckpointValue> size(const Node& value) const {
    std::vector<std::int64_t> sizes;
    for (const NodeId item : value.items) sizes.push_back(node(item).integer);
    return size_value(std::move(sizes));
  }

  Result<CheckpointValue> parameter(NodeId id) {
    const Node& value = node(id);
    const DType dtype =
        pickle_.tensors[static_cast<std::size_t>(node(value.items[0]).integer)].dtype;
    const bool integers = dtype == DType::kBool || dtype == DType::kU8 || dtype == DType::kI8 ||
                          dtype == DType::kI16 || dtype == DType::kU16 || dtype == DType::kI32 ||
                          dtype == DType::kU32 || dtype == DType::kI64 || dtype == DType::kU64;
    if (integers && value.integer != 0) return refuse("is a parameter of integers with a gradient");
    return CheckpointValue{reference(id, TensorReference::Kind::kParameter, value.integer != 0)};
  }

  // A tensor that occurs twice has one name; a parameter is another object than its tensor.
  TensorReference reference(NodeId id, TensorReference::Kind kind, bool requires_grad) {
    const auto [found, is_new] = names_.emplace(id, std::string());
    if (is_new) {
      std::vector<std::string> steps;
      for (const Open& container : open_) steps.push_back(container.step);
      found->second = record_names_.name(steps);
      const NodeId tensor = node(id).kind == NodeKind::kParameter ? node(id).items[0] : id;
      tree_.tensors.push_back({found->second, static_cast<std::size_t>(node(tensor).integer)});
    }
    return {kind, found->second, requires_grad};
  }

  const Pickle& pickle_;
  PickleTree tree_;
  mutable std::uint64_t left_values_ = kMaxPickledValues;
  mutable std::uint64_t left_bytes_ = kMaxCheckpointBytes;
  std::vector<Open> open_;
  std::unordered_set<NodeId> open_ids_;
  std::unordered_map<NodeId, std::size_t> done_;  // a container: its place
  std::unordered_map<NodeId, std::string> names_;
  CheckpointNames record_names_;
};

}  // namespace

Result<PickleTree> tree_of(const Pickle& pickle) { return TreeBuilder(pickle).run(); }

}  // namespace cfck::interop
