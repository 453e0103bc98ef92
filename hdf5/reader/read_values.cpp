#include "hdf5/reader/read_values.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/base64.hpp"
#include "base/text.hpp"
#include "cfck/tensor.hpp"
#include "hdf5/chunks/chunked_dataset.hpp"

namespace cfck::hdf5 {
namespace {

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
    return std::calloc(n_bytes, 1);
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
    if (is_text && H5Tis_variable_str(type) > 0) {
      elements.type = type;
      elements.space = space;
      elements.transfer = transfer;
    }
    CFCK_TRY(read(type, MutableBytes(elements.bytes)));
  }
  if (is_text) {
    CFCK_TRY_ASSIGN(value["text"], texts_of(type, elements.bytes, n_elems, budget));
  } else {
    value["data"] =
        base64({reinterpret_cast<const char*>(elements.bytes.data()), elements.bytes.size()});
  }
  return value;
}

// Reads all elements of a dataset, in the file's type.
struct ValueReader {
  hid_t dataset;
  std::uint64_t file_bytes;
  hid_t type;
  hid_t transfer;

  Result<void> read(MutableBytes out) const {
    CFCK_TRY_ASSIGN(const Handle properties,
                    checked(H5Dget_create_plist(dataset), "a dataset cannot be read"));
    if (H5Pget_layout(properties.get()) == H5D_CHUNKED) {
      CFCK_TRY_ASSIGN(ChunkedDataset chunks, ChunkedDataset::open(dataset, file_bytes));
      return is_variable() ? read_texts(chunks, properties.get(), out)
                           : read_chunks(chunks, properties.get(), out);
    }
    // The elements of a compact dataset are in its head, which may have fewer than the shape says.
    constexpr std::size_t kReferenceBytes = 16;
    const std::size_t stored = is_variable() ? kReferenceBytes : H5Tget_size(type);
    if (H5Pget_layout(properties.get()) == H5D_COMPACT &&
        H5Dget_storage_size(dataset) / stored < out.size() / H5Tget_size(type)) {
      return corrupt("the dataset has fewer elements in the file than its shape says");
    }
    return status_of(H5Dread(dataset, type, H5S_ALL, H5S_ALL, transfer, out.data()));
  }

 private:
  bool is_variable() const { return H5Tis_variable_str(type) > 0; }

  static Result<void> status_of(herr_t status) {
    return checked_status(status, "a value cannot be read");
  }

  Result<void> read_chunks(ChunkedDataset& chunks, hid_t properties, MutableBytes out) const {
    CFCK_TRY_ASSIGN(const auto element, fill_value(properties, type));
    fill_with(element, out);
    const Box whole = whole_box(chunks.shape());
    return chunks.read(whole, [&](const Box& chunk, ByteView elements) -> Result<void> {
      if (const auto part = shared_part(chunk, whole)) {
        copy_part(*part, chunk, elements, whole, out, element.size());
      }
      return {};
    });
  }

  // libhdf5 follows the references of strings, in chunks whose size has been checked. Strings that
  // were never written are null, unless there is a fill value.
  Result<void> read_texts(ChunkedDataset& chunks, hid_t properties, MutableBytes out) const {
    constexpr std::size_t kMaxFilled = std::size_t{1} << 16;
    const Box whole = whole_box(chunks.shape());
    H5D_fill_value_t fill = H5D_FILL_VALUE_ERROR;
    CFCK_TRY(status_of(H5Pfill_value_defined(properties, &fill)));
    const bool has_fill = fill == H5D_FILL_VALUE_USER_DEFINED;
    if (has_fill && out.size() / H5Tget_size(type) > kMaxFilled) {
      return limit_exceeded("a dataset of more than 65536 strings has a fill value");
    }
    CFCK_TRY_ASSIGN(const Handle space, checked(H5Dget_space(dataset), "a value cannot be read"));
    const TakeChunk take = [&](const Box& chunk, ByteView) -> Result<void> {
      const auto part = shared_part(chunk, whole);
      if (has_fill || !part) return {};
      const std::vector<hsize_t> starts(part->starts.begin(), part->starts.end());
      std::vector<hsize_t> counts(part->stops.begin(), part->stops.end());
      for (std::size_t axis = 0; axis < counts.size(); ++axis) counts[axis] -= starts[axis];
      CFCK_TRY(status_of(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, starts.data(), nullptr,
                                             counts.data(), nullptr)));
      return status_of(H5Dread(dataset, type, space.get(), space.get(), transfer, out.data()));
    };
    CFCK_TRY(chunks.read(whole, take));
    if (!has_fill) return {};
    return status_of(H5Dread(dataset, type, H5S_ALL, H5S_ALL, transfer, out.data()));
  }
};

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
  return read_elements(type.get(), space.get(), H5P_DEFAULT, budget,
                       [&](hid_t memory, MutableBytes out) {
                         return checked_status(H5Aread(attribute.get(), memory, out.data()),
                                               "an attribute cannot be read");
                       });
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

Result<Json> read_value(hid_t dataset, std::uint64_t file_bytes, ValueBudget& budget) {
  CFCK_TRY_ASSIGN(const Handle type, checked(H5Dget_type(dataset), "a dataset cannot be read"));
  CFCK_TRY_ASSIGN(const Handle space, checked(H5Dget_space(dataset), "a dataset cannot be read"));
  TextMemory texts;
  CFCK_TRY_ASSIGN(const Handle transfer, texts.transfer());
  auto value = read_elements(
      type.get(), space.get(), transfer.get(), budget, [&](hid_t memory, MutableBytes out) {
        texts.left_bytes = budget.left_bytes;
        const ValueReader reader{dataset, file_bytes, memory, transfer.get()};
        return reader.read(out);
      });
  if (texts.is_exceeded) return too_many_bytes();
  return value;
}

}  // namespace cfck::hdf5
