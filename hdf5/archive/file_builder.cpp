#include "hdf5/archive/file_builder.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "hdf5/archive/listing.hpp"
#include "interop/safetensors/ties.hpp"

namespace cfck::hdf5 {
namespace {

// The size of an attribute that every version of the format can have.
constexpr std::uint64_t kMaxOldAttributeBytes = 60000;
constexpr unsigned kOrderFlags = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Flags of creation order, as HDF5 takes them: an index needs tracking.
unsigned order_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return 0;
  const auto flags = static_cast<unsigned>(found->get<std::uint64_t>() & kOrderFlags);
  return flags == H5P_CRT_ORDER_INDEXED ? kOrderFlags : flags;
}

bool has_large_attribute(const Json& object) {
  const auto attributes = object.find("attributes");
  if (attributes == object.end() || !attributes->is_array()) return false;
  return std::any_of(attributes->begin(), attributes->end(), [](const Json& attribute) {
    if (!attribute.is_object()) return false;
    if (text_at(attribute, "data").size() / 4 * 3 > kMaxOldAttributeBytes) return true;
    const auto text = attribute.find("text");
    const auto type = attribute.find("type");
    if (text == attribute.end() || type == attribute.end() || !type->is_object()) return false;
    const auto bytes = type->find("bytes");
    const std::uint64_t elem_bytes =
        bytes != type->end() && bytes->is_number_unsigned() ? bytes->get<std::uint64_t>() : 16;
    return text->size() > kMaxOldAttributeBytes / std::max<std::uint64_t>(elem_bytes, 1);
  });
}

// Says which object it is about, unless the error does.
Error copy_with_place(const Error& error, const std::string& path) {
  Error copy = error;
  if (copy.record.empty()) copy.record = path;
  return copy;
}

Result<void> check_path(const std::string& path) {
  std::string_view rest = path;
  while (true) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const std::string_view part = rest.substr(0, end);
    if (part.empty() || part == "." || part == ".." || part.find('\0') != std::string_view::npos) {
      return invalid_argument(
          "HDF5 files have no such name: the parts between slashes must not be empty, '.' or '..', "
          "nor contain zero bytes; rename the tensor");
    }
    if (end == rest.size()) return {};
    rest.remove_prefix(end + 1);
  }
}

Result<void> set_orders(hid_t properties, const Json& object) {
  const bool done =
      H5Pset_link_creation_order(properties, order_at(object, "order")) >= 0 &&
      H5Pset_attr_creation_order(properties, order_at(object, "attribute_order")) >= 0 &&
      // Times would make each file another one.
      H5Pset_obj_track_times(properties, false) >= 0;
  return done ? Result<void>() : library_error("libhdf5 refused properties of a group");
}

Result<Handle> dataset_properties(const Json& object, bool is_tensor) {
  CFCK_TRY_ASSIGN(Handle properties,
                  checked(H5Pcreate(H5P_DATASET_CREATE), "libhdf5 has no dataset properties"));
  const hid_t id = properties.get();
  bool done = H5Pset_attr_creation_order(id, order_at(object, "attribute_order")) >= 0 &&
              H5Pset_obj_track_times(id, false) >= 0;
  // The elements of tensors get their place now and are written later, by cfck.
  if (is_tensor) {
    done = done && H5Pset_layout(id, H5D_CONTIGUOUS) >= 0 &&
           H5Pset_alloc_time(id, H5D_ALLOC_TIME_EARLY) >= 0 &&
           H5Pset_fill_time(id, H5D_FILL_TIME_NEVER) >= 0;
  }
  return done ? Result<Handle>(std::move(properties))
              : library_error("libhdf5 refused properties of a dataset");
}

Result<Handle> link_properties() {
  CFCK_TRY_ASSIGN(Handle properties,
                  checked(H5Pcreate(H5P_LINK_CREATE), "libhdf5 has no link properties"));
  CFCK_TRY(checked_status(H5Pset_char_encoding(properties.get(), H5T_CSET_UTF8),
                          "libhdf5 refused properties of a link"));
  return properties;
}

// As h5py does: plain names are marked as such.
Result<Handle> link_properties_for(const std::string& path) {
  const bool is_ascii = std::all_of(path.begin(), path.end(), [](char c) { return c > 0; });
  return is_ascii ? checked(H5Pcreate(H5P_LINK_CREATE), "libhdf5 has no link properties")
                  : link_properties();
}

}  // namespace

Result<void> FileBuilder::build(const Json& objects) {
  Json root = Json::object();
  if (objects.is_array() && !objects.empty() && objects.front().is_object()) {
    if (text_at(objects.front(), "group").empty() && objects.front().contains("group")) {
      root = objects.front();
    }
  }
  if (objects.is_array()) {
    root["large"] = std::any_of(objects.begin(), objects.end(), &has_large_attribute);
  }
  CFCK_TRY(create_file(root));
  if (objects.is_array()) {
    for (const Json& object : objects) CFCK_TRY(add_object(object));
  }
  CFCK_TRY(add_missing_tensors());
  CFCK_TRY(add_metadata(root));
  CFCK_TRY(checked_status(H5Fclose(file_.release()), "the HDF5 file cannot be completed"));
  std::sort(placed_.begin(), placed_.end(), [](const PlacedTensor& a, const PlacedTensor& b) {
    return a.offset_bytes < b.offset_bytes;
  });
  return {};
}

Result<void> FileBuilder::create_file(const Json& root) {
  CFCK_TRY_ASSIGN(const Handle properties,
                  checked(H5Pcreate(H5P_FILE_CREATE), "libhdf5 has no file properties"));
  CFCK_TRY(set_orders(properties.get(), root));
  const bool large = root.contains("large") && root["large"].get<bool>();
  CFCK_TRY_ASSIGN(file_, create_in_memory(memory_, properties.get(), large));
  return {};
}

Result<void> FileBuilder::add_object(const Json& object) {
  if (!object.is_object()) {
    return corrupt("the attachment hdf5.structure has an object that is none");
  }
  for (const char* kind : {"group", "tensor", "value", "soft", "link"}) {
    if (!object.contains(kind)) continue;
    const std::string path = text_at(object, kind);
    if (path.empty()) return {};  // the root, which exists
    const auto done = [&]() -> Result<void> {
      CFCK_TRY(check_path(path));
      CFCK_TRY(add_parents(path));
      const std::string_view name = kind;
      if (name == "group") return add_group(path, object);
      if (name == "tensor") return add_structured_tensor(path, object);
      if (name == "link") return add_link(path, text_at(object, "to"));
      if (!others_.insert(path).second || groups_.contains(path)) {
        return corrupt("the attachment hdf5.structure has this name twice");
      }
      if (name == "soft") {
        CFCK_TRY_ASSIGN(const Handle properties, link_properties_for(path));
        return checked_status(H5Lcreate_soft(text_at(object, "target").c_str(), file_.get(),
                                             path.c_str(), properties.get(), H5P_DEFAULT),
                              "a soft link cannot be written");
      }
      CFCK_TRY_ASSIGN(const Handle properties, dataset_properties(object, false));
      CFCK_TRY_ASSIGN(const Handle dataset,
                      write_value(file_.get(), path, properties.get(), object));
      return add_attributes(dataset.get(), object);
    }();
    return done ? done : copy_with_place(done.error(), path);
  }
  return corrupt("the attachment hdf5.structure has an object of unknown kind");
}

Result<void> FileBuilder::add_group(const std::string& path, const Json& object) {
  if (others_.contains(path) || !groups_.insert(path).second) {
    return corrupt("the attachment hdf5.structure has this name twice");
  }
  CFCK_TRY_ASSIGN(const Handle properties,
                  checked(H5Pcreate(H5P_GROUP_CREATE), "libhdf5 has no group properties"));
  CFCK_TRY(set_orders(properties.get(), object));
  CFCK_TRY_ASSIGN(const Handle links, link_properties_for(path));
  CFCK_TRY_ASSIGN(const Handle group, checked(H5Gcreate2(file_.get(), path.c_str(), links.get(),
                                                         properties.get(), H5P_DEFAULT),
                                              "a group cannot be written"));
  return add_attributes(group.get(), object);
}

Result<void> FileBuilder::add_structured_tensor(const std::string& path, const Json& object) {
  const ArchiveTensor* const tensor = archive_.find(path);
  // Tensors may have been removed since.
  return tensor == nullptr ? Result<void>() : add_tensor(*tensor, object);
}

Result<void> FileBuilder::add_link(const std::string& path, const std::string& target) {
  const ArchiveTensor* const tensor = archive_.find(path);
  const ArchiveTensor* const base = archive_.find(target);
  const bool exists = target.empty() || groups_.contains(target) || others_.contains(target);
  if (tensor != nullptr && (base == nullptr || !exists || !interop::are_tied(*tensor, *base))) {
    return add_tensor(*tensor, Json::object());
  }
  if (!exists) return {};
  if (groups_.contains(path) || !others_.insert(path).second) {
    return corrupt("the attachment hdf5.structure has this name twice");
  }
  CFCK_TRY_ASSIGN(const Handle properties, link_properties_for(path));
  return checked_status(H5Lcreate_hard(file_.get(), ("/" + target).c_str(), file_.get(),
                                       path.c_str(), properties.get(), H5P_DEFAULT),
                        "a link cannot be written");
}

const std::string* FileBuilder::tied_path(const ArchiveTensor& tensor) const {
  const auto [first, last] = written_.equal_range(tensor.base);
  for (auto at = first; at != last; ++at) {
    if (interop::are_tied(*at->second, tensor)) return &at->second->name;
  }
  return nullptr;
}

Result<void> FileBuilder::add_missing_tensors() {
  for (const ArchiveTensor& tensor : archive_.tensors()) {
    if (tensor.hidden || others_.contains(tensor.name)) continue;
    const auto done = [&]() -> Result<void> {
      CFCK_TRY(check_path(tensor.name));
      CFCK_TRY(add_parents(tensor.name));
      const std::string* const tied = tied_path(tensor);
      return tied != nullptr ? add_link(tensor.name, *tied) : add_tensor(tensor, Json::object());
    }();
    if (!done) return copy_with_place(done.error(), tensor.name);
  }
  return {};
}

Result<Handle> FileBuilder::type_for(const ArchiveTensor& tensor, const Json& object) const {
  if (object.contains("type")) {
    CFCK_TRY_ASSIGN(Handle type, build_type(object["type"]));
    const bool fits = H5Tget_class(type.get()) == H5T_OPAQUE
                          ? H5Tget_size(type.get()) * 8 == bits_per_element(tensor.dtype) &&
                                !opaque_name(tensor.dtype).empty()
                          : dtype_of(type.get()) == tensor.dtype;
    if (fits && is_stored_like(type.get(), tensor.dtype)) return type;
  }
  return file_type(tensor.dtype);
}

Result<void> FileBuilder::add_tensor(const ArchiveTensor& tensor, const Json& object) {
  if (groups_.contains(tensor.name) || !others_.insert(tensor.name).second) {
    return invalid_argument(
        "the name is that of a group as well, since other names go on behind it with a slash; "
        "HDF5 cannot have both: rename the tensor");
  }
  CFCK_TRY_ASSIGN(const Handle type, type_for(tensor, object));
  if (tensor.shape.size() > H5S_MAX_RANK) {
    return unsupported("HDF5 files have at most 32 dimensions");
  }
  const std::vector<hsize_t> sizes(tensor.shape.begin(), tensor.shape.end());
  const hid_t space_id =
      sizes.empty() ? H5Screate(H5S_SCALAR)
                    : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
  CFCK_TRY_ASSIGN(const Handle space, checked(space_id, "HDF5 refuses the shape"));
  CFCK_TRY_ASSIGN(const Handle properties, dataset_properties(object, true));
  CFCK_TRY_ASSIGN(const Handle links, link_properties_for(tensor.name));
  CFCK_TRY_ASSIGN(const Handle dataset,
                  checked(H5Dcreate2(file_.get(), tensor.name.c_str(), type.get(), space.get(),
                                     links.get(), properties.get(), H5P_DEFAULT),
                          "the dataset cannot be written"));
  CFCK_TRY(add_attributes(dataset.get(), object));
  const bool is_marked = H5Aexists(dataset.get(), "dtype") > 0;
  if (H5Tget_class(type.get()) == H5T_OPAQUE && !is_marked) {
    CFCK_TRY(write_text_attribute(dataset.get(), "dtype", std::string(opaque_name(tensor.dtype))));
  }
  written_.emplace(tensor.base, &tensor);
  if (tensor.n_bytes == 0) return {};
  const haddr_t offset = H5Dget_offset(dataset.get());
  if (offset == HADDR_UNDEF) return internal_error("libhdf5 gave a dataset no place");
  placed_.push_back({&tensor, offset});
  return {};
}

Result<void> FileBuilder::add_attributes(hid_t object, const Json& json) {
  const auto attributes = json.find("attributes");
  if (attributes == json.end() || !attributes->is_array()) return {};
  for (const Json& attribute : *attributes) CFCK_TRY(write_attribute(object, attribute));
  return {};
}

Result<void> FileBuilder::add_metadata(const Json& root) {
  CFCK_TRY_ASSIGN(const Handle group, checked(H5Gopen2(file_.get(), "/", H5P_DEFAULT),
                                              "the root group cannot be written"));
  Metadata rest = archive_.metadata();
  const auto attributes = root.find("attributes");
  const bool has_any = attributes != root.end() && attributes->is_array();
  // A note of what was left out of the file that this one is made of, but for an attribute of a
  // user that has the name.
  const bool is_of_user =
      has_any && std::any_of(attributes->begin(), attributes->end(), [](const Json& attribute) {
        return attribute.is_object() && plain_text(attribute) != nullptr &&
               text_at(attribute, "name") == kLeftOutKey;
      });
  if (!is_of_user) rest.erase(std::string(kLeftOutKey));
  if (has_any) {
    for (const Json& attribute : *attributes) {
      const std::string* const text = attribute.is_object() ? plain_text(attribute) : nullptr;
      // What is text became metadata, which may have changed since.
      if (text != nullptr) {
        const auto found = rest.find(text_at(attribute, "name"));
        if (found == rest.end() || found->second != *text) continue;
        rest.erase(found);
      }
      CFCK_TRY(write_attribute(group.get(), attribute));
    }
  }
  for (const auto& [key, value] : rest) {
    if (key.empty() || (key + value).find('\0') != std::string::npos) {
      return invalid_argument(
          "HDF5 files have no attributes with an empty name, nor zero bytes in "
          "names and strings; change the metadata '" +
          escaped(key) + "'");
    }
    CFCK_TRY(write_text_attribute(group.get(), key, value));
  }
  return {};
}

Result<void> FileBuilder::add_parents(const std::string& path) {
  for (std::size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
    const std::string parent = path.substr(0, end);
    if (groups_.contains(parent)) continue;
    if (others_.contains(parent)) {
      return invalid_argument("the name begins with that of the tensor '" + escaped(parent) +
                              "' and a slash, which in HDF5 makes it a group as well; rename one "
                              "of the two");
    }
    CFCK_TRY(add_group(parent, Json::object()));
  }
  return {};
}

}  // namespace cfck::hdf5
