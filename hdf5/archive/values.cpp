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

char padding_of(hid_t type) { return H5Tget_strpad(type) == H5T_STR_SPACEPAD ? ' ' : '\0'; }

}  // namespace cfck::hdf5
