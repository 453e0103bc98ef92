// Skeletons of checkpoints: their containers (spec/checkpoint.md, sections 1 and 3).
#include "cfck/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "model/checkpoint/json_node.hpp"
#include "model/checkpoint/keys.hpp"
#include "model/checkpoint/skeleton_values.hpp"

namespace cfck {
namespace {

using model::JsonNode;

constexpr std::int64_t kVersion = 1;
constexpr int kMaxDepth = 1000;
// In the order of CheckpointContainer::Kind.
constexpr std::array<std::string_view, 10> kTags = {
    "list",       "tuple", "dict",      "OrderedDict", "Counter",
    "state_dict", "set",   "frozenset", "attributes",  "torch.sparse"};

bool is_set(const CheckpointContainer& container) {
  return container.kind == CheckpointContainer::Kind::kSet ||
         container.kind == CheckpointContainer::Kind::kFrozenset;
}

// True for the containers with pairs of keys and values, and a value of their own behind them.
bool has_metadata(const CheckpointContainer& container) {
  return container.kind == CheckpointContainer::Kind::kStateDict ||
         container.kind == CheckpointContainer::Kind::kAttributes;
}

bool is_tensor(const CheckpointValue& value) {
  const auto* const tensor = std::get_if<TensorReference>(&value.value);
  return tensor != nullptr && tensor->kind != TensorReference::Kind::kArray;
}

// Returns what is wrong with attributes of a tensor, or nullptr.
const char* check_attributes(const CheckpointContainer& container) {
  const bool named = std::all_of(
      container.keys.begin(), container.keys.end(),
      [](const CheckpointValue& key) { return std::holds_alternative<std::string>(key.value); });
  if (!named) return "an attribute of a tensor has a name that is no string";
  return is_tensor(container.metadata) ? nullptr : "something that is no tensor has attributes";
}

// Returns what is wrong with the parts of a sparse tensor, or nullptr.
const char* check_sparse(const CheckpointContainer& container) {
  constexpr std::array<std::string_view, 5> kLayouts = {"sparse_coo", "sparse_csr", "sparse_csc",
                                                        "sparse_bsr", "sparse_bsc"};
  constexpr const char* kWrong = "a sparse tensor does not have the parts of one";
  const auto& values = container.values;
  const auto* const layout =
      values.empty() ? nullptr : std::get_if<TorchLayout>(&values.front().value);
  if (layout == nullptr) return kWrong;
  if (std::find(kLayouts.begin(), kLayouts.end(), layout->name) == kLayouts.end()) return kWrong;
  const bool is_coo = layout->name == "sparse_coo";
  const std::size_t n_tensors = is_coo ? 2 : 3;
  const bool has_flag = is_coo && values.size() == n_tensors + 3;
  if (values.size() != n_tensors + (has_flag ? 3U : 2U)) return kWrong;
  for (std::size_t i = 1; i <= n_tensors; ++i) {
    if (!is_tensor(values[i])) return kWrong;
  }
  if (!std::holds_alternative<TorchSize>(values[n_tensors + 1].value)) return kWrong;
  return has_flag && !std::holds_alternative<bool>(values.back().value) ? kWrong : nullptr;
}

// What has to hold between the containers of a checkpoint: each refers to earlier ones, all are
// referred to, no chain is too long, no dict has a key twice, and a record is one thing.
class Checker {
 public:
  // To be called for each container in order. Returns what is wrong, or nullptr.
  const char* add(const CheckpointContainer& container) {
    int depth = 0;
    const bool keyed = container.has_keys();
    if (keyed && container.keys.size() != container.values.size()) {
      return "a dict does not have a value for each key";
    }
    if (!keyed && !container.keys.empty()) return "a container that is no dict has keys";
    for (const CheckpointValue& value : container.values) {
      if (const char* wrong = refer(value, depth)) return wrong;
    }
    if (const char* wrong = refer(container.metadata, depth)) return wrong;
    if (depth == kMaxDepth) return "it is more than 1000 containers deep";
    if (container.kind == CheckpointContainer::Kind::kAttributes) {
      if (const char* wrong = check_attributes(container)) return wrong;
    }
    if (container.kind == CheckpointContainer::Kind::kSparse) {
      if (const char* wrong = check_sparse(container)) return wrong;
    }
    depths_.push_back(depth + 1);
    used_.push_back(false);
    return check_keys(is_set(container) ? container.values : container.keys);
  }

  const char* finish(const CheckpointValue& root) {
    int depth = 0;
    if (const char* wrong = refer(root, depth)) return wrong;
    const bool all = std::find(used_.begin(), used_.end(), false) == used_.end();
    return all ? nullptr : "nothing refers to one of its containers";
  }

 private:
  const char* refer(const CheckpointValue& value, int& depth) {
    if (const auto* container = std::get_if<ContainerReference>(&value.value)) {
      if (container->index >= depths_.size()) {
        return "a value does not refer to an earlier container";
      }
      depth = std::max(depth, depths_[container->index]);
      used_[container->index] = true;
    }
    if (const auto* tensor = std::get_if<TensorReference>(&value.value)) {
      const auto [found, first] = records_.emplace(tensor->record, *tensor);
      if (!first && found->second != *tensor) return "a record is used as two different values";
    }
    return nullptr;
  }

  static const char* check_keys(const std::vector<CheckpointValue>& keys) {
    std::vector<std::string> all;  // sorted: no choice of keys makes that slow, as with hashes
    for (const CheckpointValue& key : keys) {
      if (auto canonical = model::canonical_key(key)) all.push_back(std::move(*canonical));
    }
    std::sort(all.begin(), all.end());
    const bool differ = std::adjacent_find(all.begin(), all.end()) == all.end();
    return differ ? nullptr : "a dict or a set has a key twice";
  }

  std::vector<int> depths_;
  std::vector<bool> used_;
  std::map<std::string, TensorReference> records_;
};

Error damaged(Error error) {
  error.message =
      (error.code == ErrorCode::kCorrupt ? "the checkpoint's skeleton is damaged: " : "") +
      error.message;
  return error;
}

Result<void> add_pairs(CheckpointContainer& container, JsonNode&& pairs) {
  if (pairs.kind != JsonNode::Kind::kArray) return corrupt("a container is not an array");
  for (JsonNode& pair : pairs.items) {
    if (pair.kind != JsonNode::Kind::kArray || pair.items.size() != 2) {
      return corrupt("a dict has an item that is not a key and a value");
    }
    CFCK_TRY_ASSIGN(CheckpointValue key, model::key_of(std::move(pair.items[0])));
    CFCK_TRY_ASSIGN(CheckpointValue value, model::value_of(std::move(pair.items[1])));
    container.keys.push_back(std::move(key));
    container.values.push_back(std::move(value));
  }
  return {};
}

Result<CheckpointContainer> container_of(JsonNode&& node) {
  if (node.kind != JsonNode::Kind::kObject || node.items.size() != 1) {
    return corrupt("a container is not an object with one member");
  }
  const auto tag = std::find(kTags.begin(), kTags.end(), node.names[0]);
  if (tag == kTags.end()) {
    return unsupported(
        "the checkpoint was written by a newer version of cfck: there is no "
        "container of type '" +
        escaped(node.names[0]) + "'; load it with that version");
  }
  CheckpointContainer container;
  container.kind = static_cast<CheckpointContainer::Kind>(tag - kTags.begin());
  JsonNode content = std::move(node.items[0]);
  if (has_metadata(container)) {
    if (content.kind != JsonNode::Kind::kArray || content.items.size() != 2) {
      return corrupt("a state_dict, or an object with attributes, is not an array of 2");
    }
    CFCK_TRY_ASSIGN(container.metadata, model::value_of(std::move(content.items[1])));
    CFCK_TRY(add_pairs(container, JsonNode(std::move(content.items[0]))));
    return container;
  }
  if (container.has_keys()) {
    CFCK_TRY(add_pairs(container, std::move(content)));
    return container;
  }
  if (content.kind != JsonNode::Kind::kArray) return corrupt("a container is not an array");
  for (JsonNode& item : content.items) {
    auto value =
        is_set(container) ? model::key_of(std::move(item)) : model::value_of(std::move(item));
    if (!value) return std::move(value).error();
    container.values.push_back(*std::move(value));
  }
  return container;
}

// The members besides "containers", in any order.
Result<JsonNode> check_members(JsonNode&& document) {
  const auto member = [&](std::string_view name) -> JsonNode* {
    const auto found = std::find(document.names.begin(), document.names.end(), name);
    return found == document.names.end()
               ? nullptr
               : &document.items[static_cast<std::size_t>(found - document.names.begin())];
  };
  const JsonNode* const format = member("format");
  if (format == nullptr || format->text != kCheckpointAttachment) {
    return corrupt("its \"format\" is not \"cfck.checkpoint\"");
  }
  const JsonNode* const version = member("version");
  if (version == nullptr || version->kind != JsonNode::Kind::kInteger || version->integer < 1) {
    return corrupt("it has no version");
  }
  if (version->integer > kVersion) {
    return unsupported(
        "the checkpoint was written by a newer version of cfck: its skeleton has "
        "version " +
        std::to_string(version->integer) + ", this one reads 1");
  }
  const JsonNode* const containers = member("containers");
  JsonNode* const root = member("root");
  if (containers == nullptr || containers->kind != JsonNode::Kind::kArray || root == nullptr ||
      document.names.size() != 4) {
    return corrupt("its members are not format, version, containers and root");
  }
  return std::move(*root);
}

Result<Checkpoint> parse(std::string_view json) {
  if (json.size() > kMaxCheckpointBytes) {
    return limit_exceeded("the checkpoint's skeleton has more than 64 MiB");
  }
  Checkpoint checkpoint;
  Checker checker;
  CFCK_TRY_ASSIGN(
      JsonNode document,
      model::parse_json_object(json, {"containers", [&](JsonNode&& node) -> Result<void> {
                                        CFCK_TRY_ASSIGN(CheckpointContainer container,
                                                        container_of(std::move(node)));
                                        if (const char* wrong = checker.add(container)) {
                                          return corrupt(wrong);
                                        }
                                        checkpoint.containers.push_back(std::move(container));
                                        return {};
                                      }}));
  CFCK_TRY_ASSIGN(JsonNode root, check_members(std::move(document)));
  CFCK_TRY_ASSIGN(checkpoint.root, model::value_of(std::move(root)));
  if (const char* wrong = checker.finish(checkpoint.root)) return corrupt(wrong);
  return checkpoint;
}

Result<std::string> set_items(const CheckpointContainer& container) {
  std::vector<std::string> items;
  for (const CheckpointValue& value : container.values) {
    CFCK_TRY(model::append_key(items.emplace_back(), value));
  }
  std::sort(items.begin(), items.end());
  std::string json;
  for (const std::string& item : items) json += (json.empty() ? "" : ",") + item;
  return json;
}

Result<void> append_container(std::string& json, const CheckpointContainer& container) {
  const auto kind = static_cast<std::size_t>(container.kind);
  if (kind >= kTags.size()) return invalid_argument("is of an unknown kind");
  json.append("{\"").append(kTags[kind]).append("\":[");
  if (is_set(container)) {
    CFCK_TRY_ASSIGN(const std::string items, set_items(container));
    json += items + "]}";
    return {};
  }
  const bool has_value_behind = has_metadata(container);
  if (has_value_behind) json += '[';
  for (std::size_t i = 0; i < container.values.size(); ++i) {
    if (i > 0) json += ',';
    if (container.has_keys()) {
      json += '[';
      CFCK_TRY(model::append_key(json, container.keys[i]));
      json += ',';
    }
    CFCK_TRY(model::append_value(json, container.values[i]));
    if (container.has_keys()) json += ']';
  }
  if (has_value_behind) {
    json += "],";
    CFCK_TRY(model::append_value(json, container.metadata));
  }
  json += "]}";
  return {};
}

Result<std::string> format_parts(const Checkpoint& checkpoint) {
  std::string json = "{\"format\":\"cfck.checkpoint\",\"version\":1,\"containers\":[\n";
  Checker checker;
  for (std::size_t i = 0; i < checkpoint.containers.size(); ++i) {
    if (i > 0) json += ",\n";
    const CheckpointContainer& container = checkpoint.containers[i];
    const char* const wrong = checker.add(container);
    if (wrong != nullptr)
      return invalid_argument("the checkpoint cannot be stored: " + std::string(wrong));
    if (auto appended = append_container(json, container); !appended) {
      Error error = std::move(appended).error();
      error.message = "container " + std::to_string(i) + " of the checkpoint " + error.message;
      return error;
    }
    // Early, before the text outgrows the memory.
    if (json.size() > kMaxCheckpointBytes) break;
  }
  if (const char* wrong =
          json.size() > kMaxCheckpointBytes ? nullptr : checker.finish(checkpoint.root)) {
    return invalid_argument("the checkpoint cannot be stored: " + std::string(wrong));
  }
  json += "\n],\"root\":";
  CFCK_TRY(model::append_value(json, checkpoint.root));
  json += "}\n";
  if (json.size() > kMaxCheckpointBytes) {
    return limit_exceeded(
        "the containers and plain values of this checkpoint take more than 64 MiB; store long "
        "lists "
        "and bytes as tensors");
  }
  return json;
}

}  // namespace

bool TupleKey::operator==(const TupleKey& other) const { return items == other.items; }

bool CheckpointContainer::has_keys() const {
  return kind == Kind::kDict || kind == Kind::kOrderedDict || kind == Kind::kCounter ||
         kind == Kind::kStateDict || kind == Kind::kAttributes;
}

const CheckpointContainer* Checkpoint::container(const CheckpointValue& value) const {
  const auto* reference = std::get_if<ContainerReference>(&value.value);
  return reference == nullptr || reference->index >= containers.size()
             ? nullptr
             : &containers[reference->index];
}

const CheckpointValue* Checkpoint::find(const CheckpointContainer& dict, std::string_view key) {
  for (std::size_t i = 0; i < std::min(dict.keys.size(), dict.values.size()); ++i) {
    const auto* text = std::get_if<std::string>(&dict.keys[i].value);
    if (text != nullptr && *text == key) return &dict.values[i];
  }
  return nullptr;
}

Result<Checkpoint> parse_checkpoint(std::string_view json) {
  auto parsed = run_guarded([&] { return parse(json); });
  if (!parsed) return damaged(std::move(parsed).error());
  return parsed;
}

Result<std::string> format_checkpoint(const Checkpoint& checkpoint) {
  return run_guarded([&] { return format_parts(checkpoint); });
}

}  // namespace cfck
