#include "hdf5/archive/values.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/base64.hpp"
#include "base/text.hpp"
#include "cfck/tensor.hpp"

namespace cfck::hdf5 {
namespace {

Error bad_value() {
  return corrupt("the attachment hdf5.structure has a value that does not fit its type");
}

Error too_many_bytes() {
  return limit_exceeded(
      "the attributes and the datasets that are no tensors (strings, records) have more than 64 "
      "MiB; copy the tensors to a file of their own");
}

Result<void> take(ValueBudget& budget, std::uint64_t n_elems, std::uint64_t elem_bytes) {
  if (elem_bytes != 0 && n_elems > budget.left_bytes / elem_bytes) return too_many_bytes();
  budget.left_bytes -= n_elems * elem_bytes;
  return {};
}

// Memory for strings of a dataset, which may all be the same one in the file. They are counted
// while libhdf5 reads them: when it is done it is too late.
struct TextMemory {
  std::uint64_t left_bytes = 0;
  bool is_exceeded = false;

  static void* allocate(std::size_t n_bytes, void* memory) {
    auto& self = *static_cast<TextMemory*>(memory);
    self.is_exceeded = self.is_exceeded || n_bytes > self.left_bytes;
    if (self.is_exceeded) return nullptr;
    self.left_bytes -= n_bytes;
    return std::malloc(n_bytes);
  }
  static void release(void* text, void*) { std::free(text); }

  Result<Handle> transfer() {
    constexpr const char* kRefused = "libhdf5 refused the memory for strings";
    CFCK_TRY_ASSIGN(Handle properties, checked(H5Pcreate(H5P_DATASET_XFER), kRefused));
    CFCK_TRY(checked_status(
        H5Pset_vlen_mem_manager(properties.get(), &allocate, this, &release, this), kRefused));
    return properties;
  }
};

// Elements as libhdf5 gives them, with the strings that it allocated for them.
struct Elements {
  std::vector<std::byte> bytes;
  hid_t type = H5I_INVALID_HID;  // of strings to be freed
  hid_t space = H5I_INVALID_HID;
  hid_t transfer = H5P_DEFAULT;  // says how
  ~Elements() {
    if (type >= 0) H5Dvlen_reclaim(type, space, transfer, bytes.data());
  }
};

Json text_json(std::string_view text) {
  if (valid_utf8(text)) return text;
  return Json{{"base64", base64(text)}};
}

char padding_of(hid_t type) { return H5Tget_strpad(type) == H5T_STR_SPACEPAD ? ' ' : '\0'; }

Result<Json> texts_of(hid_t type, const std::vector<std::byte>& bytes, std::uint64_t n_elems,
                      ValueBudget& budget) {
  Json texts = Json::array();
  const bool is_variable = H5Tis_variable_str(type) > 0;
  const std::size_t n_bytes = is_variable ? sizeof(char*) : H5Tget_size(type);
  for (std::uint64_t i = 0; i < n_elems; ++i) {
    const auto* const at = reinterpret_cast<const char*>(bytes.data()) + i * n_bytes;
    if (is_variable) {
      const char* text = nullptr;
      std::memcpy(&text, at, sizeof(text));
      const std::size_t length = text == nullptr ? 0 : std::strlen(text);
      CFCK_TRY(take(budget, length, 1));
      texts.push_back(text == nullptr ? Json() : text_json({text, length}));
    } else {
      std::string_view text(at, n_bytes);
      while (!text.empty() && text.back() == padding_of(type)) text.remove_suffix(1);
      texts.push_back(text_json(text));
    }
  }
  return texts;
}

// Reads the elements of a value with `read(type, out)`; returns null for types that are not kept.
template <class Read>
Result<Json> read_elements(hid_t type, hid_t space, hid_t transfer, ValueBudget& budget,
                           const Read& read) {
  CFCK_TRY_ASSIGN(Json type_json, describe(type));
  if (type_json.is_null()) return Json();
  Json value{{"type", std::move(type_json)}};
  CFCK_TRY_ASSIGN(value["shape"], shape_of(space));
  if (value["shape"].is_null()) return value;
  Shape shape = value["shape"].get<Shape>();
  CFCK_TRY_ASSIGN(const std::uint64_t n_elems, cfck::n_elems(shape));
  const std::size_t elem_bytes = H5Tget_size(type);
  CFCK_TRY(take(budget, n_elems, elem_bytes));
  Elements elements;
  elements.bytes.resize(n_elems * elem_bytes);
  const bool is_text = H5Tget_class(type) == H5T_STRING;
  if (n_elems > 0) {
    CFCK_TRY(checked_status(read(type, elements.bytes.data()), "a value cannot be read"));
    if (is_text && H5Tis_variable_str(type) > 0) {
      elements.type = type;
      elements.space = space;
      elements.transfer = transfer;
    }
  }
  if (is_text) {
    CFCK_TRY_ASSIGN(value["text"], texts_of(type, elements.bytes, n_elems, budget));
  } else {
    value["data"] =
        base64({reinterpret_cast<const char*>(elements.bytes.data()), elements.bytes.size()});
  }
  return value;
}

struct Names {
  std::vector<std::string> all;
};

herr_t add_name(hid_t, const char* name, const H5A_info_t*, void* data) {
  try {
    static_cast<Names*>(data)->all.emplace_back(name);
  } catch (...) {
    return -1;
  }
  return 0;
}

Result<Json> read_attribute(hid_t object, const std::string& name, ValueBudget& budget) {
  if (!valid_utf8(name)) {
    return unsupported("an attribute has a name that is not valid UTF-8: '" + escaped(name) + "'");
  }
  CFCK_TRY(take(budget, name.size() + 1, 1));
  CFCK_TRY_ASSIGN(const Handle attribute, checked(H5Aopen(object, name.c_str(), H5P_DEFAULT),
                                                  "an attribute cannot be read"));
  CFCK_TRY_ASSIGN(const Handle type,
                  checked(H5Aget_type(attribute.get()), "an attribute cannot be read"));
  CFCK_TRY_ASSIGN(const Handle space,
                  checked(H5Aget_space(attribute.get()), "an attribute cannot be read"));
  return read_elements(type.get(), space.get(), H5P_DEFAULT, budget, [&](hid_t memory, void* out) {
    return H5Aread(attribute.get(), memory, out);
  });
}

// What a value is to be written from.
struct Parts {
  Handle type;
  Handle space;
  std::uint64_t n_elems = 0;
  std::vector<std::byte> bytes;
  std::vector<std::string> texts;  // that strings of any length in `bytes` point to
};

Result<Handle> space_of(const Json& shape, std::uint64_t& n_elems) {
  constexpr const char* kRefused = "HDF5 refuses a shape of hdf5.structure";
  if (shape.is_null()) return checked(H5Screate(H5S_NULL), kRefused);
  n_elems = 1;
  if (!shape.is_array() || shape.size() > H5S_MAX_RANK) return bad_value();
  if (shape.empty()) return checked(H5Screate(H5S_SCALAR), kRefused);
  std::vector<hsize_t> sizes;
  for (const Json& size : shape) {
    if (!size.is_number_unsigned()) return bad_value();
    sizes.push_back(size.get<std::uint64_t>());
    if (__builtin_mul_overflow(n_elems, sizes.back(), &n_elems)) return bad_value();
  }
  return checked(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr), kRefused);
}

Result<std::optional<std::string>> text_of(const Json& json) {
  if (json.is_null()) return std::optional<std::string>();
  if (json.is_string()) return std::optional(json.get<std::string>());
  if (!json.is_object() || !json.contains("base64") || !json["base64"].is_string()) {
    return bad_value();
  }
  auto bytes = bytes_of_base64(json["base64"].get<std::string>());
  if (!bytes) return bad_value();
  return std::optional(std::move(*bytes));
}

Result<void> add_texts(Parts& parts, const Json& texts) {
  const bool is_variable = H5Tis_variable_str(parts.type.get()) > 0;
  const std::size_t n_bytes = H5Tget_size(parts.type.get());
  if (texts.size() != parts.n_elems) return bad_value();
  parts.texts.reserve(texts.size());  // the strings must stay where they are
  for (const Json& json : texts) {
    CFCK_TRY_ASSIGN(std::optional<std::string> text, text_of(json));
    if (is_variable) {
      const char* at = nullptr;
      if (text) at = parts.texts.emplace_back(std::move(*text)).c_str();
      const auto* const pointer = reinterpret_cast<const std::byte*>(&at);
      parts.bytes.insert(parts.bytes.end(), pointer, pointer + sizeof(at));
      continue;
    }
    if (!text || text->size() > n_bytes) return bad_value();
    // Each string has its size in the file: not more than the JSON has strings of that size.
    text->resize(n_bytes, padding_of(parts.type.get()));
    const auto bytes = std::as_bytes(std::span(*text));
    parts.bytes.insert(parts.bytes.end(), bytes.begin(), bytes.end());
    if (parts.bytes.size() > ValueBudget().left_bytes) return bad_value();
  }
  return {};
}

Result<Parts> parts_of(const Json& value) {
  if (!value.is_object() || !value.contains("type") || !value.contains("shape")) {
    return bad_value();
  }
  Parts parts;
  CFCK_TRY_ASSIGN(parts.type, build_type(value["type"]));
  CFCK_TRY_ASSIGN(parts.space, space_of(value["shape"], parts.n_elems));
  if (value["shape"].is_null()) return parts;
  if (H5Tget_class(parts.type.get()) == H5T_STRING) {
    if (!value.contains("text") || !value["text"].is_array()) return bad_value();
    CFCK_TRY(add_texts(parts, value["text"]));
    return parts;
  }
  if (!value.contains("data") || !value["data"].is_string()) return bad_value();
  const auto bytes = bytes_of_base64(value["data"].get<std::string>());
  const std::size_t elem_bytes = H5Tget_size(parts.type.get());
  if (!bytes || bytes->size() % elem_bytes != 0 || bytes->size() / elem_bytes != parts.n_elems) {
    return bad_value();
  }
  const auto view = std::as_bytes(std::span(*bytes));
  parts.bytes.assign(view.begin(), view.end());
  return parts;
}

}  // namespace

Result<Json> shape_of(hid_t space) {
  const H5S_class_t kind = H5Sget_simple_extent_type(space);
  if (kind == H5S_NULL) return Json();
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 0) return library_error("a shape cannot be read");
  std::vector<hsize_t> sizes(static_cast<std::size_t>(rank));
  if (rank > 0 && H5Sget_simple_extent_dims(space, sizes.data(), nullptr) < 0) {
    return library_error("a shape cannot be read");
  }
  Json shape = Json::array();
  for (const hsize_t size : sizes) shape.push_back(std::uint64_t{size});
  return shape;
}

Result<Json> read_attributes(hid_t object, bool by_creation, ValueBudget& budget,
                             std::vector<std::string>& left_out) {
  Names names;
  const H5_index_t index = by_creation ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
  CFCK_TRY(checked_status(H5Aiterate2(object, index, H5_ITER_INC, nullptr, &add_name, &names),
                          "the attributes cannot be listed"));
  Json attributes = Json::array();
  for (const std::string& name : names.all) {
    CFCK_TRY_ASSIGN(Json attribute, read_attribute(object, name, budget));
    if (attribute.is_null()) {
      left_out.push_back(name);
      continue;
    }
    attribute["name"] = name;
    attributes.push_back(std::move(attribute));
  }
  return attributes;
}

Result<Json> read_value(hid_t dataset, ValueBudget& budget) {
  CFCK_TRY_ASSIGN(const Handle type, checked(H5Dget_type(dataset), "a dataset cannot be read"));
  CFCK_TRY_ASSIGN(const Handle space, checked(H5Dget_space(dataset), "a dataset cannot be read"));
  TextMemory texts;
  CFCK_TRY_ASSIGN(const Handle transfer, texts.transfer());
  auto value =
      read_elements(type.get(), space.get(), transfer.get(), budget, [&](hid_t memory, void* out) {
        texts.left_bytes = budget.left_bytes;
        return H5Dread(dataset, memory, H5S_ALL, H5S_ALL, transfer.get(), out);
      });
  if (texts.is_exceeded) return too_many_bytes();
  return value;
}

Result<void> write_attribute(hid_t object, const Json& json) {
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return bad_value();
  const auto name = json["name"].get<std::string>();
  CFCK_TRY_ASSIGN(const Parts parts, parts_of(json));
  CFCK_TRY_ASSIGN(const Handle properties,
                  checked(H5Pcreate(H5P_ATTRIBUTE_CREATE), "an attribute cannot be written"));
  const bool is_ascii = std::all_of(name.begin(), name.end(), [](char c) { return c > 0; });
  CFCK_TRY(checked_status(
      H5Pset_char_encoding(properties.get(), is_ascii ? H5T_CSET_ASCII : H5T_CSET_UTF8),
      "an attribute cannot be written"));
  CFCK_TRY_ASSIGN(const Handle attribute,
                  checked(H5Acreate2(object, name.c_str(), parts.type.get(), parts.space.get(),
                                     properties.get(), H5P_DEFAULT),
                          "an attribute cannot be written"));
  if (parts.bytes.empty()) return {};
  return checked_status(H5Awrite(attribute.get(), parts.type.get(), parts.bytes.data()),
                        "an attribute cannot be written");
}

Result<Handle> write_value(hid_t group, const std::string& name, hid_t properties,
                           const Json& value) {
  CFCK_TRY_ASSIGN(const Parts parts, parts_of(value));
  CFCK_TRY_ASSIGN(Handle dataset,
                  checked(H5Dcreate2(group, name.c_str(), parts.type.get(), parts.space.get(),
                                     H5P_DEFAULT, properties, H5P_DEFAULT),
                          "a dataset cannot be written"));
  if (!parts.bytes.empty()) {
    CFCK_TRY(checked_status(H5Dwrite(dataset.get(), parts.type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT,
                                     parts.bytes.data()),
                            "a dataset cannot be written"));
  }
  return dataset;
}

Result<void> write_text_attribute(hid_t object, const std::string& name, const std::string& text) {
  const Json type{{"class", "string"}, {"utf8", true}, {"padding", 0U}};
  return write_attribute(
      object,
      Json{
          {"name", name}, {"type", type}, {"shape", Json::array()}, {"text", Json::array({text})}});
}

const std::string* plain_text(const Json& attribute) {
  const auto shape = attribute.find("shape");
  const auto text = attribute.find("text");
  if (shape == attribute.end() || text == attribute.end() || *shape != Json::array() ||
      !text->is_array() || text->size() != 1) {
    return nullptr;
  }
  return text->front().get_ptr<const std::string*>();
}

}  // namespace cfck::hdf5
