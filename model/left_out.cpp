#include "model/left_out.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <variant>

#include "base/json_tree.hpp"
#include "base/text.hpp"
#include "cfck/checkpoint.hpp"

namespace cfck::model {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kHdf5Structure = "hdf5.structure";
constexpr std::string_view kKerasPrefix = "keras/";
constexpr std::string_view kLeftOutKey = "hdf5.left_out";
constexpr std::uint64_t kMaxStructureBytes = std::uint64_t{256} << 20;
constexpr std::size_t kMaxStructureValues = std::size_t{16} << 20;

std::string counted(std::size_t count, std::string_view one, std::string_view many) {
  return std::to_string(count).append(" ").append(count == 1 ? one : many);
}

std::string_view text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// True for a dict of tensors under their own names, as the names of any file have it. A tensor that
// is under several names is in a record of the first.
bool is_plain_dict(const TensorArchive& archive, const Checkpoint& checkpoint) {
  const CheckpointContainer* const root = checkpoint.container(checkpoint.root);
  if (root == nullptr || !root->has_keys() || root->kind == CheckpointContainer::Kind::kCounter) {
    return false;
  }
  for (std::size_t i = 0; i < root->values.size(); ++i) {
    const auto* const key = std::get_if<std::string>(&root->keys[i].value);
    const auto* const tensor = std::get_if<TensorReference>(&root->values[i].value);
    if (key == nullptr || tensor == nullptr || !tensor->dtype.empty()) return false;
    if (tensor->record != *key && archive.find(*key) == nullptr) return false;
  }
  return true;
}

bool loses_containers(const TensorArchive& archive, const Attachment& attachment) {
  if (attachment.decoded_bytes > kMaxCheckpointBytes) return true;
  const auto skeleton = archive.attachment(attachment.name);
  if (!skeleton) return true;
  const auto checkpoint = parse_checkpoint(text_of(*skeleton));
  return !checkpoint || !is_plain_dict(archive, *checkpoint);
}

// What a structure has beside tensors, groups and names.
struct StructureCounts {
  std::size_t attributes = 0;
  std::size_t values = 0;
  std::size_t soft_links = 0;

  // `metadata` are those that attributes of the root are anyway.
  void add(const Json& object, const Metadata& metadata) {
    if (!object.is_object()) return;
    values += object.contains("value") ? 1 : 0;
    soft_links += object.contains("soft") ? 1 : 0;
    const auto attributes_of = object.find("attributes");
    if (attributes_of == object.end() || !attributes_of->is_array()) return;
    const auto group = object.find("group");
    const bool is_root = group != object.end() && *group == "";
    for (const Json& attribute : *attributes_of) {
      const auto name = attribute.is_object() ? attribute.find("name") : attribute.end();
      const bool is_metadata = is_root && name != attribute.end() && name->is_string() &&
                               metadata.contains(name->get<std::string>());
      attributes += is_metadata ? 0 : 1;
    }
  }
};

void add_structure(const TensorArchive& archive, const Attachment& attachment,
                   std::vector<std::string>& contents) {
  if (attachment.decoded_bytes > kMaxStructureBytes) return;
  const auto bytes = archive.attachment(attachment.name);
  if (!bytes) {  // of a file with what cannot be kept at all: the archive has notes about that
    contents.emplace_back("groups and attributes of HDF5");
    return;
  }
  const auto tree = detail::JsonTree<Json>::parse(text_of(*bytes), {kMaxStructureValues, 64});
  if (!tree || !tree->root().is_object()) return;
  const auto objects = tree->root().find("objects");
  if (objects == tree->root().end() || !objects->is_array()) return;
  StructureCounts counts;
  for (const Json& object : *objects) counts.add(object, archive.metadata());
  if (counts.attributes > 0) {
    contents.push_back(counted(counts.attributes, "attribute", "attributes"));
  }
  if (counts.values > 0) {
    contents.push_back(
        counted(counts.values, "dataset of strings or records", "datasets of strings or records"));
  }
  if (counts.soft_links > 0) {
    contents.push_back(counted(counts.soft_links, "soft link", "soft links"));
  }
}

void add_metadata(const TensorArchive& archive, std::vector<std::string>& contents) {
  // The first says which library wrote the file, the second what is missing already.
  const auto says_nothing = [](const auto& entry) {
    return entry.first == "format" || entry.first == kLeftOutKey;
  };
  const Metadata& metadata = archive.metadata();
  const std::size_t n_entries =
      metadata.size() -
      static_cast<std::size_t>(std::count_if(metadata.begin(), metadata.end(), says_nothing));
  if (n_entries == 0) return;
  contents.push_back(counted(n_entries, "entry of metadata", "entries of metadata"));
}

bool keeps(const ArchiveFormat& format, std::string_view attachment) {
  return std::any_of(format.kept_attachments.begin(), format.kept_attachments.end(),
                     [&](std::string_view prefix) { return attachment.starts_with(prefix); });
}

}  // namespace

LeftOut left_out(const TensorArchive& archive, const ArchiveFormat& to) {
  LeftOut lost;
  if (to.encodes) return lost;
  std::string members;
  for (const Attachment& attachment : archive.attachments()) {
    if (keeps(to, attachment.name)) continue;
    if (attachment.name == kCheckpointAttachment) {
      lost.containers = loses_containers(archive, attachment);
    } else if (attachment.name == kHdf5Structure) {
      add_structure(archive, attachment, lost.contents);
    } else if (attachment.name.starts_with(kKerasPrefix)) {
      members.append(members.empty() ? "" : ", ");
      members.append(escaped(attachment.name.substr(kKerasPrefix.size())));
    } else if (!attachment.name.starts_with("safetensors.")) {  // the layout of such files
      lost.contents.push_back("the attachment '" + escaped(attachment.name) + "'");
    }
  }
  if (!members.empty()) lost.contents.push_back("the model beside the weights (" + members + ")");
  if (!to.keeps_metadata) add_metadata(archive, lost.contents);
  return lost;
}

}  // namespace cfck::model
