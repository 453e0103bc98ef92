#include "interop/pytorch/module_versions.hpp"

#include <nlohmann/json.hpp>

namespace cfck::interop {

std::string module_versions(const Checkpoint& checkpoint) {
  const CheckpointContainer* const root = checkpoint.container(checkpoint.root);
  if (root == nullptr || root->kind != CheckpointContainer::Kind::kStateDict) return {};
  const CheckpointContainer* const modules = checkpoint.container(root->metadata);
  if (modules == nullptr || !modules->has_keys()) return {};
  auto versions = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < modules->keys.size(); ++i) {
    const auto* const name = std::get_if<std::string>(&modules->keys[i].value);
    const CheckpointContainer* const module = checkpoint.container(modules->values[i]);
    if (name == nullptr || module == nullptr || !module->has_keys()) continue;
    const CheckpointValue* const version = Checkpoint::find(*module, "version");
    const auto* const number =
        version == nullptr ? nullptr : std::get_if<std::int64_t>(&version->value);
    if (number != nullptr && *number != 1) versions.emplace(*name, *number);
  }
  return versions.empty() ? std::string() : versions.dump();
}

}  // namespace cfck::interop
