#include "model/checkpoint/json_node.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace cfck::model {
namespace {

using Json = nlohmann::json;

// A key of 16 nested tuples has two levels for each, and no value nests deeper.
constexpr std::size_t kMaxDepth = 64;
// Numbers that any reader keeps, even one that has only doubles.

// Builds the tree token by token. Every handler returns false to stop, with the reason in problem_.
class NodeBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit NodeBuilder(const JsonElements& elements) : elements_(elements) {}

  JsonNode take_root() { return std::move(root_); }
  Error take_problem() { return std::move(*problem_); }

  bool null() override { return add({}); }
  bool boolean(bool value) override {
    JsonNode node;
    node.kind = JsonNode::Kind::kBool;
    node.flag = value;
    return add(std::move(node));
  }
  bool number_integer(number_integer_t value) override { return integer(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return value <= static_cast<std::uint64_t>(kMaxInteger)
               ? integer(static_cast<std::int64_t>(value))
               : fail("an integer is out of range");
  }
  bool number_float(number_float_t value, const string_t& digits) override {
    // An integer that 64 bits cannot hold arrives here as well.
    if (digits.find_first_of(".eE") == std::string::npos) return fail("an integer is out of range");
    JsonNode node;
    node.kind = JsonNode::Kind::kNumber;
    node.number = value;
    return add(std::move(node));
  }
  bool string(string_t& text) override {
    JsonNode node;
    node.kind = JsonNode::Kind::kText;
    node.text = std::move(text);
    return add(std::move(node));
  }
  bool binary(binary_t&) override { return fail("it has binary values"); }
  bool start_object(std::size_t) override { return open(JsonNode::Kind::kObject); }
  bool start_array(std::size_t) override { return open(JsonNode::Kind::kArray); }
  bool end_object() override {
    // Sorted: no choice of names makes that slow, as with hashes.
    std::vector<std::string_view> names(open_.back().names.begin(), open_.back().names.end());
    std::sort(names.begin(), names.end());
    if (std::adjacent_find(names.begin(), names.end()) != names.end()) {
      return fail("an object has two members of the same name");
    }
    return close();
  }
  bool end_array() override { return close(); }
  bool key(string_t& text) override {
    open_.back().names.push_back(std::move(text));
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // What stands behind the library's prefix: "[json.exception.parse_error.101] ...".
    std::string_view text = error.what();
    if (const auto prefix = text.find("] "); prefix != text.npos) text.remove_prefix(prefix + 2);
    problem_ = corrupt("it is not valid JSON: " + std::string(text)).at_byte(position);
    return false;
  }

 private:
  bool integer(std::int64_t value) {
    if (value < -kMaxInteger || value > kMaxInteger) return fail("an integer is out of range");
    JsonNode node;
    node.kind = JsonNode::Kind::kInteger;
    node.integer = value;
    return add(std::move(node));
  }

  bool open(JsonNode::Kind kind) {
    if (open_.empty() && kind != JsonNode::Kind::kObject) return fail("it is not an object");
    if (open_.size() == kMaxDepth) return fail("its JSON is nested too deep");
    open_.emplace_back().kind = kind;
    return true;
  }

  bool close() {
    JsonNode node = std::move(open_.back());
    open_.pop_back();
    return add(std::move(node));
  }

  bool add(JsonNode&& node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return root_.kind == JsonNode::Kind::kObject || fail("it is not an object");
    }
    if (in_elements()) {
      auto taken = elements_.take(std::move(node));
      if (!taken) problem_ = std::move(taken).error();
      return !problem_.has_value();
    }
    open_.back().items.push_back(std::move(node));
    return true;
  }

  // True directly inside the array whose elements are handed on.
  bool in_elements() const {
    return open_.size() == 2 && open_[1].kind == JsonNode::Kind::kArray &&
           open_[0].names.back() == elements_.name;
  }

  bool fail(const char* reason) {
    problem_ = corrupt(reason);
    return false;
  }

  const JsonElements& elements_;
  JsonNode root_;
  std::vector<JsonNode> open_;
  std::optional<Error> problem_;
};

}  // namespace

Result<JsonNode> parse_json_object(std::string_view json, const JsonElements& elements) {
  // The library would skip a byte order mark.
  if (json.starts_with("\xEF\xBB\xBF")) return corrupt("it begins with a byte order mark");
  NodeBuilder builder(elements);
  if (!Json::sax_parse(json.begin(), json.end(), &builder)) return builder.take_problem();
  return builder.take_root();
}

}  // namespace cfck::model
