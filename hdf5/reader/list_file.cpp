#include "hdf5/reader/list_file.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.hpp"
#include "hdf5/chunks/chunked_dataset.hpp"
#include "hdf5/reader/read_values.hpp"

namespace cfck::hdf5 {
namespace {

// A group whose links are being listed.
struct OpenGroup {
  Handle group;
  std::string prefix;  // of the paths of what is in it
  std::vector<Link> links;
  std::size_t next = 0;
};

// What is known of an object that was met before.
struct Known {
  std::string path;
  std::optional<std::size_t> dataset;  // in Listing::datasets
};

// Objects of an HDF5 file may be in circles: each is entered once.
class Walk {
 public:
  explicit Walk(std::uint64_t file_bytes) : file_bytes_(file_bytes) {}

  Result<Listing> run(hid_t file) {
    CFCK_TRY_ASSIGN(Handle root,
                    checked(H5Gopen2(file, "/", H5P_DEFAULT), "the root group cannot be read"));
    CFCK_TRY_ASSIGN(const ObjectInfo info, object_info(root.get()));
    known_.emplace(info.address, Known{"", std::nullopt});
    CFCK_TRY(enter(std::move(root), "", info));
    while (!open_.empty()) {
      if (open_.back().next == open_.back().links.size()) {
        open_.pop_back();
        continue;
      }
      const Link link = open_.back().links[open_.back().next++];
      const std::string path = open_.back().prefix + link.name;
      auto done = visit(open_.back().group.get(), link, path);
      if (!done) return std::move(done).error().in_record(path);
    }
    listing_.structure = Json{{"version", 1}, {"objects", std::move(objects_)}};
    return std::move(listing_);
  }

 private:
  Result<void> visit(hid_t group, const Link& link, const std::string& path) {
    CFCK_TRY(check_name(link.name, path));
    CFCK_TRY(take_path(path));
    if (link.type == H5L_TYPE_SOFT) {
      CFCK_TRY_ASSIGN(const std::string target, soft_target(group, link.name));
      if (!valid_utf8(target)) {
        return unsupported("the target of a soft link is not valid UTF-8");
      }
      objects_.push_back(Json{{"soft", path}, {"target", target}});
      return {};
    }
    if (link.type != H5L_TYPE_HARD) {
      return unsupported(
          "this is a link to another file, which is not followed; copy what it leads to into the "
          "file, or remove the link");
    }
    CFCK_TRY_ASSIGN(Handle object, checked(H5Oopen(group, link.name.c_str(), H5P_DEFAULT),
                                           "an object cannot be read"));
    CFCK_TRY_ASSIGN(const ObjectInfo info, object_info(object.get()));
    const auto [known, is_new] = known_.try_emplace(info.address, Known{path, std::nullopt});
    if (!is_new) return add_link(path, known->second);
    switch (info.type) {
      case H5O_TYPE_GROUP:
        return enter(std::move(object), path, info);
      case H5O_TYPE_DATASET:
        return add_dataset(object.get(), path, info, known->second);
      default:
        listing_.lost.push_back(path);  // a type that is stored on its own
        return {};
    }
  }

  // The library follows names with slashes and dots: in a damaged file, to anywhere.
  Result<void> check_name(const std::string& name, const std::string& path) const {
    if (name.empty() || name == "." || name.find('/') != std::string::npos) {
      return corrupt("an object has a name that none can have; the file is damaged");
    }
    if (!valid_utf8(name)) return unsupported("an object has a name that is not valid UTF-8");
    if (path.size() > kMaxPathBytes) {
      return limit_exceeded("groups nest so deep that a path is longer than 65535 bytes");
    }
    return {};
  }

  // Each object has its whole path: many of them deep in groups with long names would take far more
  // memory than their file.
  Result<void> take_path(const std::string& path) {
    if (path.size() > left_path_bytes_) {
      return limit_exceeded(
          "the paths of all objects together take more than 64 MiB; use shorter names of groups");
    }
    left_path_bytes_ -= path.size();
    return {};
  }

  Result<void> add_link(const std::string& path, const Known& known) {
    CFCK_TRY(take_path(known.path));
    objects_.push_back(Json{{"link", path}, {"to", known.path}});
    if (!known.dataset) return {};
    ListedDataset tied = listing_.datasets[*known.dataset];
    tied.name = path;
    tied.stored_bytes = 0;
    tied.tied_to = *known.dataset;
    listing_.datasets.push_back(std::move(tied));
    return {};
  }

  // Adds what groups and datasets share: attributes and flags.
  Result<Json> attributes_of(hid_t object, hid_t properties, const std::string& path,
                             const ObjectInfo& info, Json& json) {
    unsigned order = 0;
    CFCK_TRY(
        checked_status(H5Pget_attr_creation_order(properties, &order), "an object cannot be read"));
    if (order != 0) json["attribute_order"] = order;
    if (info.n_attributes == 0) return Json::array();
    std::vector<std::string> left_out;
    CFCK_TRY_ASSIGN(Json attributes, read_attributes(object, (order & H5P_CRT_ORDER_TRACKED) != 0,
                                                     budget_, left_out));
    for (const std::string& name : left_out) {
      CFCK_TRY(take_path(path));
      listing_.left_out.emplace_back(path, name);
    }
    if (!attributes.empty()) json["attributes"] = attributes;
    return attributes;
  }

  Result<void> enter(Handle group, const std::string& path, const ObjectInfo& info) {
    CFCK_TRY_ASSIGN(const Handle properties,
                    checked(H5Gget_create_plist(group.get()), "a group cannot be read"));
    unsigned order = 0;
    CFCK_TRY(checked_status(H5Pget_link_creation_order(properties.get(), &order),
                            "a group cannot be read"));
    Json json{{"group", path}};
    if (order != 0) json["order"] = order;
    CFCK_TRY_ASSIGN(const Json attributes,
                    attributes_of(group.get(), properties.get(), path, info, json));
    if (path.empty()) {
      for (const Json& attribute : attributes) {
        if (const std::string* const text = plain_text(attribute)) {
          listing_.metadata.emplace(attribute["name"].get<std::string>(), *text);
        }
      }
    }
    objects_.push_back(std::move(json));
    OpenGroup open;
    CFCK_TRY_ASSIGN(open.links, links_of(group.get(), (order & H5P_CRT_ORDER_TRACKED) != 0,
                                         kMaxObjects - n_links_));
    n_links_ += open.links.size();
    open.group = std::move(group);
    open.prefix = path.empty() ? "" : path + "/";
    open_.push_back(std::move(open));
    return {};
  }

  Result<void> add_dataset(hid_t dataset, const std::string& path, const ObjectInfo& info,
                           Known& known) {
    CFCK_TRY_ASSIGN(const Handle properties,
                    checked(H5Dget_create_plist(dataset), "a dataset cannot be read"));
    const H5D_layout_t layout = H5Pget_layout(properties.get());
    if (layout == H5D_VIRTUAL || H5Pget_external_count(properties.get()) != 0) {
      return unsupported(
          "the elements of this dataset are in other files, which are not opened; copy it into the "
          "file, for example with h5repack");
    }
    CFCK_TRY_ASSIGN(const Handle type, checked(H5Dget_type(dataset), "a dataset cannot be read"));
    CFCK_TRY_ASSIGN(const Handle space, checked(H5Dget_space(dataset), "a dataset cannot be read"));
    Json json;
    CFCK_TRY_ASSIGN(const Json attributes,
                    attributes_of(dataset, properties.get(), path, info, json));
    const std::optional<DType> dtype = tensor_dtype(type.get(), attributes);
    CFCK_TRY_ASSIGN(const Json shape, shape_of(space.get()));
    if (!dtype || shape.is_null()) return add_value(dataset, path, std::move(json));
    json["tensor"] = path;
    const H5T_class_t kind = H5Tget_class(type.get());
    if (kind == H5T_OPAQUE || (kind == H5T_ENUM && *dtype != DType::kBool) ||
        (kind == H5T_FLOAT && !opaque_name(*dtype).empty())) {
      CFCK_TRY_ASSIGN(json["type"], describe(type.get()));
    }
    objects_.push_back(std::move(json));
    ListedDataset listed;
    listed.name = path;
    listed.dtype = *dtype;
    listed.shape = shape.get<Shape>();
    CFCK_TRY(add_place(dataset, type.get(), properties.get(), layout, listed));
    known.dataset = listing_.datasets.size();
    listing_.datasets.push_back(std::move(listed));
    return {};
  }

  static std::optional<DType> tensor_dtype(hid_t type, const Json& attributes) {
    if (H5Tget_class(type) != H5T_OPAQUE) return dtype_of(type);
    for (const Json& attribute : attributes) {
      const std::string* const text =
          attribute["name"] == "dtype" ? plain_text(attribute) : nullptr;
      const auto dtype = text == nullptr ? std::nullopt : opaque_dtype(*text);
      if (dtype && bits_per_element(*dtype) == 8 * H5Tget_size(type)) return dtype;
    }
    return std::nullopt;
  }

  Result<void> add_value(hid_t dataset, const std::string& path, Json json) {
    CFCK_TRY_ASSIGN(Json value, read_value(dataset, file_bytes_, budget_));
    if (value.is_null()) {
      listing_.lost.push_back(path);
      return {};
    }
    json["value"] = path;
    json.update(value);
    objects_.push_back(std::move(json));
    return {};
  }

  // Where the elements are, and whether there can be as many as the file claims.
  Result<void> add_place(hid_t dataset, hid_t type, hid_t properties, H5D_layout_t layout,
                         ListedDataset& listed) const {
    CFCK_TRY_ASSIGN(const std::uint64_t size, n_bytes(listed.dtype, listed.shape));
    listed.stored_bytes = H5Dget_storage_size(dataset);
    const std::uint64_t n_elems = size * 8 / bits_per_element(listed.dtype);
    if (layout == H5D_CHUNKED) {
      std::vector<hsize_t> chunk(listed.shape.size());
      const int rank = H5Pget_chunk(properties, static_cast<int>(chunk.size()), chunk.data());
      if (rank < 0 || static_cast<std::size_t>(rank) != chunk.size()) {
        return corrupt("the chunks of a dataset have another number of dimensions than itself");
      }
      listed.chunk_shape.assign(chunk.begin(), chunk.end());
      return listed.stored_bytes == 0 ? add_fill(type, properties, listed) : Result<void>();
    }
    if (layout != H5D_CONTIGUOUS || size == 0) {
      if (listed.stored_bytes / H5Tget_size(type) >= n_elems) return {};
      return corrupt("the dataset has fewer elements in the file than its shape says");
    }
    const haddr_t offset = H5Dget_offset(dataset);
    // Never written: the fill value. In files with a user block the offset is not HADDR_UNDEF then.
    if (offset == HADDR_UNDEF || listed.stored_bytes == 0) {
      listed.stored_bytes = 0;
      return add_fill(type, properties, listed);
    }
    const std::uint64_t in_file = n_elems * H5Tget_size(type);
    if (offset > file_bytes_ || in_file > file_bytes_ - offset) {
      return truncated(
                 "the elements of this dataset reach beyond the end of the file; download it "
                 "again")
          .at_byte(std::min<std::uint64_t>(offset, file_bytes_));
    }
    listed.stored_bytes = in_file;
    if (is_stored_like(type, listed.dtype)) listed.offset_bytes = offset;
    return {};
  }

  static Result<void> add_fill(hid_t type, hid_t properties, ListedDataset& listed) {
    CFCK_TRY_ASSIGN(const Handle memory, memory_type(type, listed.dtype));
    CFCK_TRY_ASSIGN(const auto element, fill_value(properties, memory.get()));
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(element.data());
    listed.fill.emplace(bytes, bytes + element.size());
    return {};
  }

  std::uint64_t file_bytes_;
  Listing listing_;
  Json objects_ = Json::array();
  std::vector<OpenGroup> open_;
  std::map<Address, Known> known_;
  std::size_t n_links_ = 0;
  std::uint64_t left_path_bytes_ = std::uint64_t{64} << 20;
  ValueBudget budget_;
};

}  // namespace

Result<Listing> list_file(hid_t file, std::uint64_t file_bytes) {
  return Walk(file_bytes).run(file);
}

}  // namespace cfck::hdf5
