#include "format/update/checkpoint_skeleton.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cfck/dtype.hpp"
#include "format/write/sharing/alias_plan.hpp"

namespace cfck::format {
namespace {

using Json = nlohmann::json;

// Every reader of checkpoints refuses longer ones.
constexpr std::uint64_t kMaxSkeletonBytes = 64ULL << 20;

// Members of the document, and every tag of version 1.
constexpr std::array<std::string_view, 30> kKnownMembers = {
    "format",       "version",      "containers", "root",         "int",          "float",
    "complex",      "bytes",        "bytearray",  "numpy.scalar", "torch.Size",   "torch.dtype",
    "torch.device", "torch.layout", "torch.meta", "torch.tensor", "torch.sparse", "tensor",
    "parameter",    "array",        "at",         "list",         "tuple",        "dict",
    "OrderedDict",  "Counter",      "state_dict", "set",          "frozenset",    "attributes"};

// Collects the records that a skeleton names. Names of object members are tags
// there, never keys of the saved dicts.
class NameCollector final : public nlohmann::json_sax<Json> {
 public:
  // True if the skeleton is of version 1, so that every name was found.
  bool is_complete() const { return is_version_1_ && !has_unknown_member_; }
  const std::set<std::string>& names() const { return names_; }
  // Parameters that require a gradient, which integers cannot.
  const std::set<std::string>& trained() const { return trained_; }
  // Tensors that are complex numbers with parts in a last dimension, which others have not.
  const std::set<std::string>& split() const { return split_; }

  bool key(string_t& text) override {
    expected_ = text == "tensor" || text == "array" ? Expected::kName
                : text == "parameter"               ? Expected::kPair
                : text == "torch.tensor"            ? Expected::kPair
                : text == "version"                 ? Expected::kVersion
                                                    : Expected::kAnything;
    has_unknown_member_ |=
        std::find(kKnownMembers.begin(), kKnownMembers.end(), text) == kKnownMembers.end();
    return true;
  }

  bool start_array(std::size_t) override {
    return next(expected_ == Expected::kPair ? Expected::kPairName : Expected::kAnything);
  }

  bool string(string_t& text) override {
    const bool in_pair = expected_ == Expected::kPairName;
    if (in_pair || expected_ == Expected::kName) names_.insert(text);
    if (in_pair) {
      parameter_ = std::move(text);
      return next(Expected::kRequiresGrad);
    }
    if (expected_ != Expected::kRequiresGrad) return next();
    // In {"torch.tensor": ...} a dtype and a class stand between the name and requires_grad.
    if (text.starts_with("complex")) split_.insert(parameter_);
    return true;
  }

  bool boolean(bool value) override {
    if (expected_ == Expected::kRequiresGrad && value) trained_.insert(parameter_);
    return next();
  }

  bool number_unsigned(number_unsigned_t number) override {
    if (expected_ == Expected::kVersion) is_version_1_ = number == 1;
    return next();
  }

  bool null() override { return expected_ == Expected::kRequiresGrad || next(); }
  bool number_integer(number_integer_t) override { return next(); }
  bool number_float(number_float_t, const string_t&) override { return next(); }
  bool binary(binary_t&) override { return next(); }
  bool start_object(std::size_t) override { return next(); }
  bool end_object() override { return next(); }
  bool end_array() override { return next(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  enum class Expected { kAnything, kName, kPair, kPairName, kRequiresGrad, kVersion };

  bool next(Expected expected = Expected::kAnything) {
    expected_ = expected;
    return true;
  }

  Expected expected_ = Expected::kAnything;
  bool is_version_1_ = false;
  bool has_unknown_member_ = false;
  std::string parameter_;
  std::set<std::string> names_;
  std::set<std::string> trained_;
  std::set<std::string> split_;
};

// The content of a skeleton that concerns its records.
struct Skeleton {
  bool is_known = false;  // false: damaged, or of a newer version
  std::set<std::string> names;
  std::set<std::string> trained;
  std::set<std::string> split;
};

Result<Skeleton> read_skeleton(const Reader& reader) {
  for (const Attachment& attachment : reader.attachments()) {
    if (attachment.name == kSkeletonAttachment && attachment.decoded_bytes > kMaxSkeletonBytes) {
      return Skeleton{};
    }
  }
  CFCK_TRY_ASSIGN(const std::vector<std::byte> bytes, reader.attachment(kSkeletonAttachment));
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  NameCollector collector;
  const bool is_json = Json::sax_parse(text, text + bytes.size(), &collector);
  if (!is_json || !collector.is_complete()) return Skeleton{};
  return Skeleton{true, collector.names(), collector.trained(), collector.split()};
}

bool can_require_grad(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
    case DType::kI16:
    case DType::kU16:
    case DType::kI32:
    case DType::kU32:
    case DType::kI64:
    case DType::kU64:
      return false;
    default:
      return true;
  }
}

// The elements of a record: equal for names of one tensor. Those without elements are all equal.
using Elements = std::tuple<std::uint32_t, std::uint64_t, Shape, std::vector<std::uint64_t>>;

Elements elements_of(const Reader& reader, std::uint32_t i) {
  const Record& record = reader.records()[i];
  if (record.kind != RecordKind::kAlias) {
    return {i, 0, record.shape, contiguous_strides(record.shape)};
  }
  return {record.base, record.element_offset, record.shape,
          normalised_strides(record.shape, record.strides)};
}

// The place of a tensor in memory: equal for names to which an update gives the same tensor.
using Given = std::tuple<const std::byte*, DType, Shape, std::vector<std::uint64_t>>;

// Returns tensors of which the update changes one name, and others not, or to other values.
std::set<std::string> find_torn(const Reader& reader, const Update& changes) {
  std::map<std::string_view, Given> given;
  for (const StridedTensor& tensor : changes.tensors) {
    given[tensor.name] = {tensor.data, tensor.dtype, tensor.shape,
                          normalised_strides(tensor.shape, tensor.strides)};
  }
  const std::set<std::string_view> removed(changes.remove.begin(), changes.remove.end());
  // For each tensor: what its names are given (nullopt: nothing), and one of these names.
  std::map<Elements, std::pair<std::optional<Given>, std::string>> fates;
  std::set<std::string> torn;
  for (std::uint32_t i = 0; i < reader.records().size(); ++i) {
    const Record& record = reader.records()[i];
    if (record.hidden || record.decoded_bytes == 0 || removed.contains(record.name)) continue;
    const auto found = given.find(record.name);
    const auto fate = found == given.end() ? std::nullopt : std::optional(found->second);
    const auto [of_tensor, is_first] = fates.try_emplace(elements_of(reader, i), fate, record.name);
    if (is_first || of_tensor->second.first == fate) continue;
    torn.insert({record.name, of_tensor->second.second});
  }
  return torn;
}

// Tensors whose change may break a checkpoint. All others keep name and kind.
struct Suspects {
  std::set<std::string> added;
  std::set<std::string> removed;
  std::set<std::string> made_integers;
  std::set<std::string> other_dtypes;
  std::set<std::string> torn;

  bool empty() const {
    return added.empty() && removed.empty() && made_integers.empty() && other_dtypes.empty() &&
           torn.empty();
  }
};

Suspects find_suspects(const Reader& reader, const Update& changes) {
  std::map<std::string_view, DType> before;
  for (const Record& record : reader.records()) {
    if (!record.hidden) before.emplace(record.name, record.dtype);
  }
  Suspects suspects;
  suspects.removed.insert(changes.remove.begin(), changes.remove.end());
  for (const StridedTensor& tensor : changes.tensors) {
    suspects.removed.erase(tensor.name);
    const auto old = before.find(tensor.name);
    if (old == before.end()) suspects.added.insert(tensor.name);
    const bool could = old == before.end() || can_require_grad(old->second);
    if (could && !can_require_grad(tensor.dtype)) suspects.made_integers.insert(tensor.name);
    const bool is_pair = !tensor.shape.empty() && tensor.shape.back() == 2;
    const bool has_parts =
        old != before.end() && (old->second == DType::kF64 || old->second == DType::kF16);
    if (has_parts && (old->second != tensor.dtype || !is_pair)) {
      suspects.other_dtypes.insert(tensor.name);
    }
  }
  suspects.torn = find_torn(reader, changes);
  return suspects;
}

Error refusal(const std::string& name, std::string_view what) {
  return invalid_argument(
             "this file is a checkpoint of save_checkpoint, and after this update load_checkpoint "
             "would refuse it: " +
             std::string(what) +
             ". Nothing was written. Load it with load_checkpoint, change what that returns, "
             "and save it with save_checkpoint; or, where the tensors alone are wanted, load "
             "them with load_file and save them with save_file")
      .in_record(name);
}

}  // namespace

bool has_skeleton(const Reader& reader) {
  const auto attachments = reader.attachments();
  return std::any_of(attachments.begin(), attachments.end(), [](const Attachment& attachment) {
    return attachment.name == kSkeletonAttachment;
  });
}

Result<void> check_skeleton_keeps(const Reader& reader, const Update& changes) {
  if (!has_skeleton(reader)) return {};
  const Suspects suspects = find_suspects(reader, changes);
  if (suspects.empty()) return {};
  CFCK_TRY_ASSIGN(const Skeleton skeleton, read_skeleton(reader));
  // Checkpoints that an earlier version of this library broke may be repaired: a tensor that
  // nothing names goes, one that is missing comes back.
  for (const std::string& name : suspects.added) {
    if (!skeleton.is_known || !skeleton.names.contains(name)) {
      return refusal(name, "nothing in the checkpoint refers to this tensor, which would be new");
    }
  }
  for (const std::string& name : suspects.removed) {
    if (!skeleton.is_known || skeleton.names.contains(name)) {
      return refusal(name, "the checkpoint refers to this tensor, which would be missing");
    }
  }
  for (const std::string& name : suspects.made_integers) {
    if (!skeleton.is_known || skeleton.trained.contains(name)) {
      return refusal(name, "it is a parameter that requires a gradient, which integers cannot");
    }
  }
  for (const std::string& name : suspects.other_dtypes) {
    if (skeleton.is_known && skeleton.split.contains(name)) {
      return refusal(name, "it is the parts of complex numbers, of this dtype and two in each row");
    }
  }
  for (const std::string& name : suspects.torn) {
    // Tensors that the checkpoint names one by one may go their own ways. Where it cannot be read,
    // nobody knows which those are.
    if (!skeleton.is_known || !skeleton.names.contains(name)) {
      return refusal(name, "this is a second name of a tensor; give all its names the same tensor");
    }
  }
  return {};
}

}  // namespace cfck::format
