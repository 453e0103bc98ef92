#include "interop/safetensors/header.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "interop/safetensors/ties.hpp"

namespace cfck::interop {
namespace {

using Json = nlohmann::json;

// Values of fields that safetensors ignores may nest this deep, as they may there.
constexpr std::size_t kMaxSkippedDepth = 125;

// Receives the header token by token, and takes what safetensors takes: of two values with one key
// the last one, a tensor that is described by a list of its fields, and a dtype that is the only
// key of an object. Every handler returns false to stop, with the reason in problem_.
class HeaderHandler final : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderHandler(const SafetensorsHeaderBounds& bounds) : bounds_(bounds) {}

  std::vector<SafetensorsEntry> take_entries() { return std::move(entries_); }
  Metadata take_metadata() { return std::move(metadata_); }
  Error take_problem() { return std::move(problem_); }

  bool null() override {
    if (place_ == Place::kDTypeValue) {
      place_ = Place::kDTypeEnd;
      return true;
    }
    return place_ == Place::kMetadataStart ? leave_metadata() : value();
  }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }

  bool number_unsigned(number_unsigned_t number) override {
    if (place_ == Place::kShape) {
      entry_.shape.push_back(number);
      return true;
    }
    if (place_ == Place::kOffsets) {
      offsets_.push_back(number);
      return true;
    }
    return value();
  }

  bool string(string_t& text) override {
    if (place_ == Place::kMetadata) {
      metadata_.insert_or_assign(key_, std::move(text));
      return metadata_.size() <= bounds_.max_metadata || fail("__metadata__ has too many entries");
    }
    if (place_ == Place::kTensor && field() == Field::kDType) return take_dtype(text);
    return value();
  }

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTop;
        return true;
      case Place::kTensorStart:
        place_ = Place::kTensor;
        seen_ = 0;
        return true;
      case Place::kMetadataStart:
        place_ = Place::kMetadata;
        return true;
      case Place::kTensor:
        if (field() != Field::kDType) return open_skipped();
        place_ = Place::kDTypeKey;
        return true;
      default:
        return open_skipped();
    }
  }

  bool key(string_t& text) override {
    if (skipped_depth_ > 0) return true;
    if (place_ == Place::kTop) return start_entry(std::move(text));
    if (place_ == Place::kMetadata) {
      key_ = std::move(text);
      return true;
    }
    if (place_ == Place::kDTypeKey) {
      place_ = Place::kDTypeValue;
      return take_dtype(text);
    }
    if (place_ == Place::kDTypeEnd) return value();
    field_ = text == "dtype"          ? Field::kDType
             : text == "shape"        ? Field::kShape
             : text == "data_offsets" ? Field::kOffsets
                                      : Field::kOther;
    const unsigned bit = 1U << static_cast<unsigned>(field_);
    if (field_ != Field::kOther && (seen_ & bit) != 0) {
      return fail_in_tensor("has the field '" + text + "' twice");
    }
    seen_ |= bit;
    return true;
  }

  bool end_object() override {
    if (skipped_depth_ > 0) return close_skipped();
    if (place_ == Place::kMetadata) return leave_metadata();
    if (place_ == Place::kTensor) return finish_entry();
    if (place_ == Place::kDTypeKey) return value();
    if (place_ == Place::kDTypeEnd) return leave_field();
    place_ = Place::kEnd;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::kTensorStart) {
      place_ = Place::kTensor;
      seen_ = 0;
      n_listed_ = 0;
      return true;
    }
    if (place_ == Place::kTensor && field() == Field::kShape) {
      place_ = Place::kShape;
      return true;
    }
    if (place_ == Place::kTensor && field() == Field::kOffsets) {
      place_ = Place::kOffsets;
      return true;
    }
    return open_skipped();
  }

  bool end_array() override {
    if (skipped_depth_ > 0) return close_skipped();
    if (place_ == Place::kOffsets && offsets_.size() != 2) {
      return fail_in_tensor("needs two data_offsets, begin and end");
    }
    if (place_ != Place::kTensor) return leave_field();
    seen_ = *n_listed_ == kListedFields ? kAllFields : 0;
    return finish_entry();
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    problem_ = {ErrorCode::kCorrupt,
                "the safetensors header is not valid JSON in UTF-8",
                {},
                kSafetensorsLengthBytes + (position > 0 ? position - 1 : 0)};
    return false;
  }

 private:
  enum class Place {
    kStart,
    kTop,
    kMetadataStart,
    kMetadata,
    kTensorStart,
    kTensor,
    kDTypeKey,
    kDTypeValue,
    kDTypeEnd,
    kShape,
    kOffsets,
    kEnd,
  };
  enum class Field { kDType, kShape, kOffsets, kOther };
  static constexpr std::size_t kListedFields = 3;
  static constexpr unsigned kAllFields = 7;

  // The field whose value comes next; in a list its place says which.
  Field field() const {
    if (!n_listed_) return field_;
    return static_cast<Field>(std::min(*n_listed_, kListedFields));
  }

  bool take_dtype(const std::string& text) {
    const auto dtype = dtype_from_name(text);
    if (!dtype) return fail_in_tensor("has the unknown dtype '" + escaped(text) + "'");
    entry_.dtype = *dtype;
    return place_ == Place::kTensor ? leave_field() : true;
  }

  bool leave_field() {
    place_ = Place::kTensor;
    if (n_listed_) ++*n_listed_;
    return true;
  }

  bool fail(std::string message) {
    problem_ = {ErrorCode::kCorrupt, "safetensors header: " + std::move(message), {}, {}};
    return false;
  }

  bool fail_in_tensor(const std::string& message) {
    fail("the tensor " + message);
    problem_.record = entry_.name;
    return false;
  }

  // Handles a value that no rule above takes: it is allowed only where safetensors ignores it.
  bool value() {
    const bool is_ignored = place_ == Place::kTensor && field() == Field::kOther && !n_listed_;
    if (skipped_depth_ > 0 || is_ignored) return true;
    switch (place_) {
      case Place::kShape:
        return fail_in_tensor("has a dimension that is not an integer from 0 to 2^64-1");
      case Place::kOffsets:
        return fail_in_tensor("has an offset that is not an integer from 0 to 2^64-1");
      case Place::kTensor:
      case Place::kDTypeKey:
      case Place::kDTypeValue:
      case Place::kDTypeEnd:
        return fail_in_tensor(n_listed_ && field() == Field::kOther
                                  ? "is described by more than dtype, shape and data_offsets"
                                  : "has a field of the wrong type");
      case Place::kTensorStart:
        return fail_in_tensor("is not described by an object");
      case Place::kMetadata:
        return fail("the value of '" + escaped(key_) + "' in __metadata__ is not a string");
      default:
        return fail("__metadata__ is not an object");
    }
  }

  bool open_skipped() {
    if (!value()) return false;
    return ++skipped_depth_ <= kMaxSkippedDepth ||
           fail_in_tensor("nests ignored fields too deeply");
  }
  bool close_skipped() {
    --skipped_depth_;
    return true;
  }

  bool start_entry(std::string name) {
    if (name == kMetadataKey) {
      if (std::exchange(has_metadata_, true)) return fail("there is __metadata__ twice");
      place_ = Place::kMetadataStart;
      return true;
    }
    entry_ = {};
    entry_.name = std::move(name);
    offsets_.clear();
    n_listed_.reset();
    place_ = Place::kTensorStart;
    return true;
  }

  bool leave_metadata() {
    place_ = Place::kTop;
    return true;
  }

  bool finish_entry() {
    if ((seen_ & kAllFields) != kAllFields) {
      return fail_in_tensor("needs dtype, shape and data_offsets");
    }
    if (offsets_[0] > offsets_[1]) return fail_in_tensor("ends before it begins");
    entry_.offset_bytes = offsets_[0];
    entry_.n_bytes = offsets_[1] - offsets_[0];
    place_ = Place::kTop;
    const auto [place, is_new] = places_.emplace(entry_.name, entries_.size());
    if (!is_new) {
      entries_[place->second] = std::move(entry_);
      return true;
    }
    if (entries_.size() == bounds_.max_tensors) return fail_in_tensor("is one too many");
    entries_.push_back(std::move(entry_));
    return true;
  }

  const SafetensorsHeaderBounds bounds_;
  Place place_ = Place::kStart;
  Field field_ = Field::kOther;
  unsigned seen_ = 0;                    // one bit for each Field of the tensor
  std::optional<std::size_t> n_listed_;  // fields of a tensor that a list describes
  bool has_metadata_ = false;
  std::size_t skipped_depth_ = 0;
  std::string key_;
  SafetensorsEntry entry_;
  std::vector<std::uint64_t> offsets_;
  std::map<std::string, std::size_t> places_;  // of tensors in entries_
  std::vector<SafetensorsEntry> entries_;
  Metadata metadata_;
  Error problem_;
};

Error layout_error(ErrorCode code, const SafetensorsEntry& entry, const std::string& message) {
  return {code, "safetensors header: the tensor " + message, entry.name, {}};
}

// True if safetensors takes the shape for one without elements: it multiplies up to the zero.
bool is_empty(const Shape& shape) {
  const auto zero = std::find(shape.begin(), shape.end(), 0U);
  return zero != shape.end() && n_elems(Shape(shape.begin(), zero)).has_value();
}

// Sorts the entries by offset and checks that they leave no gaps and cover `data_bytes` exactly.
Result<void> check_layout(std::vector<SafetensorsEntry>& entries,
                          std::optional<std::uint64_t> data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    if (a.offset_bytes != b.offset_bytes) return a.offset_bytes < b.offset_bytes;
    if (a.n_bytes != b.n_bytes) return a.n_bytes < b.n_bytes;
    return a.name < b.name;
  });
  std::uint64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.offset_bytes != end) {
      const char* what = entry.offset_bytes > end ? "leaves a gap before it" : "overlaps another";
      return layout_error(ErrorCode::kCorrupt, entry, what);
    }
    const auto expected = n_bytes(entry.dtype, entry.shape);
    if (!expected && is_empty(entry.shape)) {
      return layout_error(ErrorCode::kLimitExceeded, entry,
                          "has no elements, but dimensions whose product is 2^63 or more without "
                          "the zero: a .cfck file cannot hold its shape");
    }
    if (!expected) {
      return layout_error(ErrorCode::kCorrupt, entry,
                          "has an impossible shape: " + expected.error().message);
    }
    if (*expected != entry.n_bytes) {
      return layout_error(ErrorCode::kCorrupt, entry,
                          "has " + std::to_string(entry.n_bytes) +
                              " bytes, its dtype and shape need " + std::to_string(*expected));
    }
    end += entry.n_bytes;  // end - begin of the file: cannot wrap
    if (data_bytes && end > *data_bytes) {
      return layout_error(ErrorCode::kTruncated, entry,
                          "lies beyond the end of the file, which was truncated");
    }
  }
  if (data_bytes && end != *data_bytes) {
    return corrupt("the safetensors file has " + std::to_string(*data_bytes - end) +
                   " bytes after the last tensor");
  }
  return {};
}

void append_quoted(std::string& out, std::string_view text) {
  static constexpr std::string_view kEscaped = "\b\f\n\r\t\"\\";
  static constexpr std::string_view kLetters = "bfnrt\"\\";
  out += '"';
  for (const char c : text) {
    if (const auto at = kEscaped.find(c); at != std::string_view::npos) {
      out += '\\';
      out += kLetters[at];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += kHexDigits[static_cast<unsigned char>(c) >> 4];
      out += kHexDigits[c & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_entry(std::string& json, const SafetensorsEntry& entry, std::uint64_t begin) {
  append_quoted(json, entry.name);
  json += ":{\"dtype\":\"";
  json += dtype_name(entry.dtype);
  json += "\",\"shape\":[";
  for (std::size_t i = 0; i < entry.shape.size(); ++i) {
    if (i > 0) json += ',';
    json += std::to_string(entry.shape[i]);
  }
  json += "],\"data_offsets\":[" + std::to_string(begin) + ',' +
          std::to_string(begin + entry.n_bytes) + "]}";
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string json,
                                                   std::optional<std::uint64_t> data_bytes) {
  CFCK_TRY_ASSIGN(SafetensorsHeader header, check_safetensors_header(json, data_bytes, {}));
  header.json = std::move(json);
  return header;
}

Result<SafetensorsHeader> check_safetensors_header(std::string_view json,
                                                   std::optional<std::uint64_t> data_bytes,
                                                   const SafetensorsHeaderBounds& bounds) {
  // The JSON parser would skip a byte order mark and stop at a zero byte.
  const auto begin = json.find_first_not_of(kJsonSpaces);
  if (begin == std::string::npos || json[begin] != '{') {
    return corrupt("a safetensors header must begin with '{'")
        .at_byte(kSafetensorsLengthBytes + (begin == std::string::npos ? 0 : begin));
  }
  if (const auto at = json.find('\0'); at != std::string::npos) {
    return corrupt("the safetensors header is not valid JSON in UTF-8")
        .at_byte(kSafetensorsLengthBytes + at);
  }
  HeaderHandler handler(bounds);
  if (!Json::sax_parse(json, &handler)) return handler.take_problem();
  SafetensorsHeader header{{}, handler.take_entries(), handler.take_metadata(), {}};
  CFCK_TRY(check_layout(header.entries, data_bytes));
  for (SafetensorsEntry& entry : header.entries) {
    entry.offset_bytes += kSafetensorsLengthBytes + json.size();
  }
  header.ties = ties_of(header.entries, header.metadata);
  return header;
}

Result<SafetensorsHeader> make_safetensors_header(std::vector<SafetensorsEntry> entries,
                                                  Metadata metadata) {
  // The values of DType ascend with the alignment, in the order safetensors uses.
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  });
  SafetensorsHeader header;
  std::string& json = header.json;
  json = '{';
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (json.back() != '{') json += ',';
      append_quoted(json, key);
      json += ':';
      append_quoted(json, value);
    }
    json += '}';
  }
  std::uint64_t data_bytes = 0;
  for (SafetensorsEntry& entry : entries) {
    if (entry.name == kMetadataKey) {
      return layout_error(ErrorCode::kInvalidArgument, entry,
                          "cannot have this name, which safetensors reserves for its metadata");
    }
    CFCK_TRY_ASSIGN(entry.n_bytes, n_bytes(entry.dtype, entry.shape));
    entry.offset_bytes = data_bytes;
    if (!checked_add(data_bytes, entry.n_bytes, data_bytes)) {
      return layout_error(ErrorCode::kLimitExceeded, entry,
                          "makes the file longer than 2^64 bytes");
    }
    if (json.size() > 1) json += ',';
    append_entry(json, entry, entry.offset_bytes);
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > kMaxSafetensorsHeaderBytes) {
    return limit_exceeded("too many tensors: the safetensors header would be longer than 100 MB");
  }
  for (SafetensorsEntry& entry : entries) {
    entry.offset_bytes += kSafetensorsLengthBytes + json.size();
  }
  header.entries = std::move(entries);
  header.metadata = std::move(metadata);
  header.ties = ties_of(header.entries, header.metadata);
  return header;
}

}  // namespace cfck::interop
