// Types of HDF5 in JSON and back.
#include <cstring>
#include <memory>

#include "base/text.hpp"
#include "hdf5/archive/element_type.hpp"

namespace cfck::hdf5 {
namespace {

constexpr unsigned kMaxDepth = 16;
constexpr std::size_t kMaxTypeBytes = std::size_t{1} << 24;
constexpr unsigned kMaxMembers = 4096;

using Text = std::unique_ptr<char, herr_t (*)(void*)>;

Error no_description() {
  return corrupt("the attachment hdf5.structure describes a type that HDF5 does not have");
}

std::string order_name(hid_t type) { return H5Tget_order(type) == H5T_ORDER_BE ? "big" : "little"; }

Result<Json> describe_integer(hid_t type) {
  const std::size_t n_bytes = H5Tget_size(type);
  if (H5Tget_precision(type) != 8 * n_bytes || n_bytes > 8) return Json();
  return Json{{"class", "integer"},
              {"bytes", n_bytes},
              {"signed", H5Tget_sign(type) == H5T_SGN_2},
              {"order", order_name(type)}};
}

Result<Json> describe_float(hid_t type) {
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  CFCK_TRY(checked_status(
      H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits),
      "a type cannot be read"));
  if (H5Tget_norm(type) != H5T_NORM_IMPLIED || H5Tget_offset(type) != 0 ||
      H5Tget_precision(type) != 8 * H5Tget_size(type)) {
    return Json();
  }
  return Json{{"class", "float"},
              {"bytes", H5Tget_size(type)},
              {"order", order_name(type)},
              {"bits", {sign, exponent, exponent_bits, mantissa, mantissa_bits}},
              {"bias", H5Tget_ebias(type)}};
}

Result<Json> describe_string(hid_t type) {
  Json json{{"class", "string"},
            {"utf8", H5Tget_cset(type) == H5T_CSET_UTF8},
            {"padding", static_cast<int>(H5Tget_strpad(type))}};
  if (H5Tis_variable_str(type) == 0) json["bytes"] = H5Tget_size(type);
  return json;
}

Result<Json> describe_enum(hid_t type, unsigned depth) {
  CFCK_TRY_ASSIGN(const Handle base, checked(H5Tget_super(type), "a type cannot be read"));
  CFCK_TRY_ASSIGN(Json base_json, describe(base.get(), depth + 1));
  const int n_members = H5Tget_nmembers(type);
  if (base_json.is_null() || H5Tget_size(type) > 8 || n_members < 0) return Json();
  Json members = Json::array();
  for (unsigned i = 0; i < static_cast<unsigned>(n_members); ++i) {
    const Text name(H5Tget_member_name(type, i), &H5free_memory);
    std::uint64_t bits = 0;  // of the base type, in its byte order
    CFCK_TRY(checked_status(H5Tget_member_value(type, i, &bits), "a type cannot be read"));
    if (name == nullptr || !valid_utf8(name.get())) return Json();
    members.push_back({std::string(name.get()), bits});
  }
  return Json{{"class", "enum"}, {"base", std::move(base_json)}, {"members", std::move(members)}};
}

Result<Json> describe_compound(hid_t type, unsigned depth) {
  Json members = Json::array();
  const int n_members = H5Tget_nmembers(type);
  for (unsigned i = 0; n_members > 0 && i < static_cast<unsigned>(n_members); ++i) {
    const Text name(H5Tget_member_name(type, i), &H5free_memory);
    CFCK_TRY_ASSIGN(const Handle member,
                    checked(H5Tget_member_type(type, i), "a type cannot be read"));
    CFCK_TRY_ASSIGN(Json json, describe(member.get(), depth + 1));
    // Pointers of strings of any length inside a record are not kept.
    if (json.is_null() || name == nullptr || !valid_utf8(name.get()) ||
        H5Tdetect_class(member.get(), H5T_VLEN) > 0 || H5Tis_variable_str(member.get()) > 0) {
      return Json();
    }
    members.push_back({std::string(name.get()), H5Tget_member_offset(type, i), std::move(json)});
  }
  return Json{{"class", "compound"}, {"bytes", H5Tget_size(type)}, {"members", std::move(members)}};
}

Result<Json> describe_array(hid_t type, unsigned depth) {
  CFCK_TRY_ASSIGN(const Handle base, checked(H5Tget_super(type), "a type cannot be read"));
  CFCK_TRY_ASSIGN(Json base_json, describe(base.get(), depth + 1));
  const int rank = H5Tget_array_ndims(type);
  if (base_json.is_null() || rank < 1 || H5Tis_variable_str(base.get()) > 0) return Json();
  std::vector<hsize_t> shape(static_cast<std::size_t>(rank));
  CFCK_TRY(checked_status(H5Tget_array_dims2(type, shape.data()), "a type cannot be read"));
  return Json{{"class", "array"}, {"base", std::move(base_json)}, {"shape", shape}};
}

Result<Json> describe_opaque(hid_t type) {
  const Text tag(H5Tget_tag(type), &H5free_memory);
  if (tag == nullptr || !valid_utf8(tag.get())) return Json();
  return Json{{"class", "opaque"}, {"bytes", H5Tget_size(type)}, {"tag", std::string(tag.get())}};
}

// Returns an unsigned member of an object, at most `max`.
Result<std::uint64_t> number(const Json& json, const char* key, std::uint64_t max) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_unsigned() || found->get<std::uint64_t>() > max) {
    return no_description();
  }
  return found->get<std::uint64_t>();
}

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool flag(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_boolean() && found->get<bool>();
}

Result<Handle> built(hid_t id) { return checked(id, "HDF5 refuses a type of hdf5.structure"); }
Result<void> built_status(herr_t status) {
  return checked_status(status, "HDF5 refuses a type of hdf5.structure");
}

Result<void> set_order(hid_t type, const Json& json) {
  return built_status(
      H5Tset_order(type, text_of(json, "order") == "big" ? H5T_ORDER_BE : H5T_ORDER_LE));
}

Result<Handle> build_integer(const Json& json) {
  CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, number(json, "bytes", 8));
  const bool is_signed = flag(json, "signed");
  CFCK_TRY_ASSIGN(Handle type, built(H5Tcopy(is_signed ? H5T_STD_I64LE : H5T_STD_U64LE)));
  if (n_bytes == 0) return no_description();
  CFCK_TRY(built_status(H5Tset_size(type.get(), n_bytes)));
  CFCK_TRY(set_order(type.get(), json));
  return type;
}

Result<Handle> build_float(const Json& json) {
  CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, number(json, "bytes", 16));
  CFCK_TRY_ASSIGN(const std::uint64_t bias, number(json, "bias", 1 << 20));
  const auto bits = json.find("bits");
  if (n_bytes == 0 || bits == json.end() || !bits->is_array() || bits->size() != 5) {
    return no_description();
  }
  std::array<std::size_t, 5> at{};
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (!(*bits)[i].is_number_unsigned() || (*bits)[i].get<std::uint64_t>() > 128) {
      return no_description();
    }
    at[i] = (*bits)[i].get<std::size_t>();
  }
  CFCK_TRY_ASSIGN(Handle type, built(H5Tcopy(n_bytes > 4 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE)));
  if (n_bytes > 8) CFCK_TRY(built_status(H5Tset_size(type.get(), n_bytes)));
  if (n_bytes > 8) CFCK_TRY(built_status(H5Tset_precision(type.get(), 8 * n_bytes)));
  CFCK_TRY(built_status(H5Tset_fields(type.get(), at[0], at[1], at[2], at[3], at[4])));
  if (n_bytes <= 8) CFCK_TRY(built_status(H5Tset_size(type.get(), n_bytes)));
  CFCK_TRY(built_status(H5Tset_ebias(type.get(), bias)));
  CFCK_TRY(set_order(type.get(), json));
  return type;
}

Result<Handle> build_string(const Json& json) {
  CFCK_TRY_ASSIGN(Handle type, built(H5Tcopy(H5T_C_S1)));
  CFCK_TRY_ASSIGN(const std::uint64_t padding, number(json, "padding", H5T_STR_SPACEPAD));
  std::size_t n_bytes = H5T_VARIABLE;
  if (json.contains("bytes")) {
    CFCK_TRY_ASSIGN(n_bytes, number(json, "bytes", kMaxTypeBytes));
    if (n_bytes == 0) return no_description();
  }
  CFCK_TRY(built_status(H5Tset_size(type.get(), n_bytes)));
  CFCK_TRY(built_status(H5Tset_strpad(type.get(), static_cast<H5T_str_t>(padding))));
  CFCK_TRY(
      built_status(H5Tset_cset(type.get(), flag(json, "utf8") ? H5T_CSET_UTF8 : H5T_CSET_ASCII)));
  return type;
}

Result<const Json*> members_of(const Json& json, std::size_t n_fields) {
  const auto members = json.find("members");
  if (members == json.end() || !members->is_array() || members->size() > kMaxMembers) {
    return no_description();
  }
  for (const Json& member : *members) {
    if (!member.is_array() || member.size() != n_fields || !member[0].is_string() ||
        !member[1].is_number_unsigned()) {
      return no_description();
    }
  }
  return &*members;
}

Result<Handle> build_enum(const Json& json, unsigned depth) {
  if (!json.contains("base") || text_of(json["base"], "class") != "integer") {
    return no_description();
  }
  CFCK_TRY_ASSIGN(const Handle base, build_type(json["base"], depth + 1));
  CFCK_TRY_ASSIGN(const Json* const members, members_of(json, 2));
  CFCK_TRY_ASSIGN(Handle type, built(H5Tenum_create(base.get())));
  for (const Json& member : *members) {
    const auto bits = member[1].get<std::uint64_t>();
    CFCK_TRY(built_status(H5Tenum_insert(type.get(), member[0].get<std::string>().c_str(), &bits)));
  }
  return type;
}

Result<Handle> build_compound(const Json& json, unsigned depth) {
  CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, number(json, "bytes", kMaxTypeBytes));
  CFCK_TRY_ASSIGN(const Json* const members, members_of(json, 3));
  if (n_bytes == 0) return no_description();
  CFCK_TRY_ASSIGN(Handle type, built(H5Tcreate(H5T_COMPOUND, n_bytes)));
  for (const Json& member : *members) {
    CFCK_TRY_ASSIGN(const Handle inner, build_type(member[2], depth + 1));
    if (H5Tis_variable_str(inner.get()) != 0) return no_description();
    CFCK_TRY(built_status(H5Tinsert(type.get(), member[0].get<std::string>().c_str(),
                                    member[1].get<std::size_t>(), inner.get())));
  }
  return type;
}

Result<Handle> build_array(const Json& json, unsigned depth) {
  if (!json.contains("base") || !json.contains("shape") || !json["shape"].is_array()) {
    return no_description();
  }
  const Json& shape = json["shape"];
  std::vector<hsize_t> sizes;
  std::uint64_t n_elems = 1;
  for (const Json& size : shape) {
    if (!size.is_number_unsigned() || sizes.size() == H5S_MAX_RANK) return no_description();
    sizes.push_back(size.get<std::uint64_t>());
    if (sizes.back() == 0 || sizes.back() > kMaxTypeBytes / n_elems) return no_description();
    n_elems *= sizes.back();
  }
  if (sizes.empty()) return no_description();
  CFCK_TRY_ASSIGN(const Handle base, build_type(json["base"], depth + 1));
  if (H5Tis_variable_str(base.get()) != 0) return no_description();
  if (H5Tget_size(base.get()) > kMaxTypeBytes / n_elems) return no_description();
  return built(H5Tarray_create2(base.get(), static_cast<unsigned>(sizes.size()), sizes.data()));
}

Result<Handle> build_opaque(const Json& json) {
  CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, number(json, "bytes", kMaxTypeBytes));
  const std::string tag = text_of(json, "tag");
  if (n_bytes == 0 || tag.size() >= H5T_OPAQUE_TAG_MAX) return no_description();
  CFCK_TRY_ASSIGN(Handle type, built(H5Tcreate(H5T_OPAQUE, n_bytes)));
  CFCK_TRY(built_status(H5Tset_tag(type.get(), tag.c_str())));
  return type;
}

}  // namespace

Result<Json> describe(hid_t type, unsigned depth) {
  if (depth > kMaxDepth || H5Tget_size(type) > kMaxTypeBytes) return Json();
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return describe_integer(type);
    case H5T_FLOAT:
      return describe_float(type);
    case H5T_STRING:
      return describe_string(type);
    case H5T_ENUM:
      return describe_enum(type, depth);
    case H5T_COMPOUND:
      return describe_compound(type, depth);
    case H5T_ARRAY:
      return describe_array(type, depth);
    case H5T_OPAQUE:
      return describe_opaque(type);
    default:
      return Json();
  }
}

Result<Handle> build_type(const Json& json, unsigned depth) {
  const std::string kind = json.is_object() ? text_of(json, "class") : "";
  if (depth > kMaxDepth) return no_description();
  if (kind == "integer") return build_integer(json);
  if (kind == "float") return build_float(json);
  if (kind == "string") return build_string(json);
  if (kind == "enum") return build_enum(json, depth);
  if (kind == "compound") return build_compound(json, depth);
  if (kind == "array") return build_array(json, depth);
  if (kind == "opaque") return build_opaque(json);
  return no_description();
}

}  // namespace cfck::hdf5
