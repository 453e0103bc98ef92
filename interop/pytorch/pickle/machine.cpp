#include "interop/pytorch/pickle/machine.hpp"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "interop/pytorch/pickle/reader.hpp"
#include "interop/pytorch/pickle/text.hpp"

namespace cfck::interop {
namespace {

constexpr int kMaxProtocol = 5;
// An item or character of a value takes at least a byte of the pickle, and may be copied a few
// times (into a set, from text to bytes).
constexpr std::uint64_t kItemsPerByte = 8;
constexpr std::uint64_t kMaxItems = 2 * kMaxPickleBytes;

// Returns "-0x1f" for the two's complement of these bytes, the lowest first.
std::string hex_of(std::vector<unsigned char> bytes) {
  const bool negative = !bytes.empty() && (bytes.back() & 0x80) != 0;
  if (negative) {
    unsigned carry = 1;
    for (unsigned char& byte : bytes) {
      const unsigned flipped = (byte ^ 0xFFU) + carry;
      byte = static_cast<unsigned char>(flipped);
      carry = flipped >> 8;
    }
    if (carry != 0) bytes.push_back(1);
  }
  while (bytes.size() > 1 && bytes.back() == 0) bytes.pop_back();
  std::reverse(bytes.begin(), bytes.end());
  std::string digits = hexadecimal(std::span<const unsigned char>(bytes));
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return (negative ? "-0x" : "0x") + digits;
}

Error bad_text(std::string_view what) {
  return corrupt("the pickle has text that is no " + std::string(what));
}

}  // namespace

PickleMachine::PickleMachine(ByteView bytes, Pickle& pickle)
    : bytes_(bytes),
      pickle_(pickle),
      calls_(pickle, std::min(kItemsPerByte * (bytes.size() + 1), kMaxItems)),
      memo_(bytes.size()) {}

Result<void> PickleMachine::run() {
  while (!stopped_) {
    start_ = at_;
    auto done = step();
    if (done) done = check_size();
    if (done) continue;
    Error error = std::move(done).error();
    return error.byte_offset ? std::move(error) : std::move(error).at_byte(start_);
  }
  pickle_.n_bytes = at_;
  return {};
}

Result<ByteView> PickleMachine::take(std::uint64_t n_bytes) {
  if (n_bytes > bytes_.size() - at_) {
    return truncated("the pickle ends inside an operand; download the file again");
  }
  const ByteView operand = bytes_.subspan(at_, n_bytes);
  at_ += n_bytes;
  return operand;
}

Result<std::string> PickleMachine::line() {
  for (std::size_t end = at_; end < bytes_.size(); ++end) {
    if (bytes_[end] != std::byte{'\n'}) continue;
    std::string text(reinterpret_cast<const char*>(bytes_.data() + at_), end - at_);
    at_ = end + 1;
    return text;
  }
  return truncated("the pickle ends inside a line; download the file again");
}

Result<void> PickleMachine::check_size() const {
  if (std::max<std::uint64_t>(stack_.size(), memo_.size()) > kMaxPickledValues) {
    return too_many_values();
  }
  return calls_.check_size();
}

Error PickleMachine::underflow() {
  return corrupt("the pickle takes more values than there are; download the file again");
}

Result<NodeId> PickleMachine::pop() {
  CFCK_TRY_ASSIGN(const NodeId id, top());
  stack_.pop_back();
  return id;
}

Result<NodeId> PickleMachine::top() const {
  if (stack_.empty() || stack_.back() == kMark) return underflow();
  return stack_.back();
}

Result<std::vector<NodeId>> PickleMachine::pop_mark() {
  const auto mark = std::find(stack_.rbegin(), stack_.rend(), kMark);
  if (mark == stack_.rend()) return underflow();
  std::vector<NodeId> items(mark.base(), stack_.end());
  stack_.resize(stack_.size() - items.size() - 1);
  return items;
}

Result<void> PickleMachine::push_value(NodeKind kind, std::int64_t integer, double real,
                                       std::string text) {
  Node node;
  node.kind = kind;
  node.integer = integer;
  node.real = real;
  node.text = std::move(text);
  push(calls_.add(std::move(node)));
  return {};
}

Result<void> PickleMachine::push_small(NodeKind kind, std::uint8_t integer) {
  const std::uint32_t key = static_cast<std::uint32_t>(kind) << 8 | integer;
  const auto [found, is_new] = small_.try_emplace(key, NodeId{0});
  if (is_new) {
    CFCK_TRY(push_value(kind, integer));
    found->second = stack_.back();
  } else {
    push(found->second);
  }
  return {};
}

Result<void> PickleMachine::push_byte() {
  CFCK_TRY_ASSIGN(const auto value, number<std::uint8_t>());
  return push_small(NodeKind::kInteger, value);
}

Result<void> PickleMachine::push_text(Result<std::string> text) {
  if (!text) return std::move(text).error();
  if (!valid_utf8(*text)) return corrupt("the pickle has a string that is not valid UTF-8");
  return push_value(NodeKind::kText, 0, 0, *std::move(text));
}

Result<void> PickleMachine::push_bytes(Result<std::string> bytes, NodeKind kind) {
  if (!bytes) return std::move(bytes).error();
  return push_value(kind, 0, 0, *std::move(bytes));
}

Result<void> PickleMachine::push_long(std::uint64_t n_bytes) {
  CFCK_TRY_ASSIGN(const ByteView operand, take(n_bytes));
  if (n_bytes > 8) {
    std::vector<unsigned char> digits;
    for (const std::byte byte : operand) digits.push_back(static_cast<unsigned char>(byte));
    return push_value(NodeKind::kBigInteger, 0, 0, hex_of(std::move(digits)));
  }
  const bool negative = n_bytes > 0 && (operand.back() & std::byte{0x80}) != std::byte{0};
  std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = operand.size(); i-- > 0;) {
    value = value << 8 | static_cast<std::uint64_t>(operand[i]);
  }
  return push_value(NodeKind::kInteger, static_cast<std::int64_t>(value));
}

Result<void> PickleMachine::push_float() {
  CFCK_TRY_ASSIGN(const ByteView operand, take(8));
  std::uint64_t bits = 0;
  for (const std::byte byte : operand) bits = bits << 8 | static_cast<std::uint64_t>(byte);
  return push_value(NodeKind::kFloat, 0, std::bit_cast<double>(bits));
}

Result<void> PickleMachine::push_decimal(bool is_long) {
  CFCK_TRY_ASSIGN(const std::string digits, line());
  std::string_view text = digits;
  if (!is_long && text.size() == 2 && text[0] == '0' && (text[1] == '0' || text[1] == '1')) {
    return push_small(NodeKind::kBool, text[1] == '1' ? 1 : 0);
  }
  if (is_long && text.ends_with('L')) text.remove_suffix(1);
  auto integer = decimal_integer(text);
  if (!integer) return bad_text("integer of at most 4300 digits");
  if (integer->fits) return push_value(NodeKind::kInteger, integer->value);
  return push_value(NodeKind::kBigInteger, 0, 0, std::move(integer->digits));
}

Result<void> PickleMachine::push_decimal_float() {
  CFCK_TRY_ASSIGN(const std::string text, line());
  const auto value = decimal_float(text);
  if (!value) return bad_text("number");
  return push_value(NodeKind::kFloat, 0, *value);
}

Result<void> PickleMachine::push_quoted() {
  CFCK_TRY_ASSIGN(const std::string literal, line());
  auto text = quoted_text(literal);
  if (!text) return bad_text("literal in quotes");
  return push_text(*std::move(text));
}

Result<void> PickleMachine::push_raw_unicode() {
  CFCK_TRY_ASSIGN(const std::string escapes, line());
  auto text = raw_unicode(escapes);
  if (!text) return bad_text("Unicode with escapes");
  return push_text(*std::move(text));
}

Result<void> PickleMachine::push_tuple(std::size_t n_items) {
  std::vector<NodeId> items(n_items);
  for (std::size_t i = n_items; i-- > 0;) {
    CFCK_TRY_ASSIGN(items[i], pop());
  }
  push(calls_.add(NodeKind::kTuple, std::move(items)));
  return {};
}

Result<void> PickleMachine::push_marked(NodeKind kind) {
  CFCK_TRY_ASSIGN(std::vector<NodeId> items, pop_mark());
  push(calls_.add(kind, std::move(items)));
  return {};
}

Result<void> PickleMachine::push_marked_dict() {
  CFCK_TRY_ASSIGN(const std::vector<NodeId> items, pop_mark());
  push(calls_.add(NodeKind::kDict, {}));
  return set_items(items);
}

Result<void> PickleMachine::push_frozenset() {
  CFCK_TRY_ASSIGN(std::vector<NodeId> items, pop_mark());
  for (const NodeId item : items) CFCK_TRY(calls_.check_key(item));
  push(calls_.add(NodeKind::kFrozenset, std::move(items)));
  return {};
}

Result<void> PickleMachine::memoize(std::uint64_t place) {
  CFCK_TRY_ASSIGN(const NodeId id, top());
  memo_.set(place, id);
  return {};
}

Result<void> PickleMachine::recall(std::uint64_t place) {
  const auto found = memo_.find(place);
  if (!found) return corrupt("the pickle refers to a value that it does not have");
  push(*found);
  return {};
}

Result<std::uint64_t> PickleMachine::decimal_place() {
  CFCK_TRY_ASSIGN(const std::string text, line());
  const auto place = decimal_integer(text);
  if (!place || !place->fits || place->value < 0) return bad_text("number of a value");
  return static_cast<std::uint64_t>(place->value);
}

Result<void> PickleMachine::add_part(NodeId object, NodeKind kind,
                                     const std::vector<NodeId>& items) {
  if (kind == NodeKind::kDict && items.size() % 2 != 0) {
    return corrupt("the pickle sets items of no dict");
  }
  const NodeId part = calls_.add(kind, std::vector<NodeId>(items));
  calls_.at(object).items.push_back(part);
  return {};
}

Result<void> PickleMachine::append(const std::vector<NodeId>& items) {
  CFCK_TRY_ASSIGN(const NodeId list, top());
  if (is_unknown(calls_.at(list).kind)) return add_part(list, NodeKind::kList, items);
  if (calls_.at(list).kind != NodeKind::kList) return corrupt("the pickle appends to no list");
  auto& all = calls_.at(list).items;
  all.insert(all.end(), items.begin(), items.end());
  return {};
}

Result<void> PickleMachine::set_items(const std::vector<NodeId>& items) {
  CFCK_TRY_ASSIGN(const NodeId dict, top());
  const NodeKind kind = calls_.at(dict).kind;
  if (is_unknown(kind)) return add_part(dict, NodeKind::kDict, items);
  if ((kind != NodeKind::kDict && kind != NodeKind::kOrderedDict && kind != NodeKind::kCounter) ||
      items.size() % 2 != 0) {
    return corrupt("the pickle sets items of no dict");
  }
  for (std::size_t i = 0; i < items.size(); i += 2) CFCK_TRY(calls_.check_key(items[i]));
  auto& all = calls_.at(dict).items;
  all.insert(all.end(), items.begin(), items.end());
  return {};
}

Result<void> PickleMachine::add_items(const std::vector<NodeId>& items) {
  CFCK_TRY_ASSIGN(const NodeId set, top());
  if (is_unknown(calls_.at(set).kind)) return add_part(set, NodeKind::kList, items);
  if (calls_.at(set).kind != NodeKind::kSet) return corrupt("the pickle adds to no set");
  for (const NodeId item : items) CFCK_TRY(calls_.check_key(item));
  auto& all = calls_.at(set).items;
  all.insert(all.end(), items.begin(), items.end());
  return {};
}

Result<void> PickleMachine::one_item(Add add) {
  CFCK_TRY_ASSIGN(const NodeId item, pop());
  return (this->*add)({item});
}

Result<void> PickleMachine::marked_items(Add add) {
  CFCK_TRY_ASSIGN(const std::vector<NodeId> items, pop_mark());
  return (this->*add)(items);
}

Result<void> PickleMachine::one_pair() {
  CFCK_TRY_ASSIGN(const NodeId value, pop());
  CFCK_TRY_ASSIGN(const NodeId key, pop());
  return set_items({key, value});
}

Result<void> PickleMachine::push_result(Result<NodeId> made) {
  if (!made) return std::move(made).error();
  push(*made);
  return {};
}

Result<void> PickleMachine::push_global() {
  CFCK_TRY_ASSIGN(const std::string module, line());
  CFCK_TRY_ASSIGN(const std::string name, line());
  if (!valid_utf8(module) || !valid_utf8(name)) return bad_text("name of a class or function");
  return push_result(calls_.global(module, name, start_));
}

Result<void> PickleMachine::push_stack_global() {
  CFCK_TRY_ASSIGN(const NodeId name, pop());
  CFCK_TRY_ASSIGN(const NodeId module, pop());
  if (calls_.at(name).kind != NodeKind::kText || calls_.at(module).kind != NodeKind::kText) {
    return corrupt("the pickle names a global by something that is no text");
  }
  return push_result(calls_.global(std::string(calls_.at(module).text),
                                   std::string(calls_.at(name).text), start_));
}

Result<void> PickleMachine::reduce() {
  CFCK_TRY_ASSIGN(const NodeId arguments, pop());
  CFCK_TRY_ASSIGN(const NodeId function, pop());
  return push_result(calls_.call(function, arguments));
}

// No function that is known takes arguments by name.
Result<void> PickleMachine::reduce_with_keywords() {
  CFCK_TRY_ASSIGN(const NodeId keywords, pop());
  CFCK_TRY_ASSIGN(const NodeId arguments, pop());
  CFCK_TRY_ASSIGN(const NodeId function, pop());
  if (calls_.at(function).kind != NodeKind::kClass) {
    return corrupt("the pickle gives a function other arguments than PyTorch does");
  }
  CFCK_TRY_ASSIGN(const NodeId object, calls_.call(function, arguments));
  calls_.at(object).items.push_back(keywords);
  push(object);
  return {};
}

Result<void> PickleMachine::build() {
  CFCK_TRY_ASSIGN(const NodeId state, pop());
  CFCK_TRY_ASSIGN(const NodeId object, top());
  return calls_.build(object, state);
}

Result<void> PickleMachine::persistent() {
  CFCK_TRY_ASSIGN(const NodeId id, pop());
  return push_result(calls_.storage(id));
}

Result<void> PickleMachine::protocol() {
  CFCK_TRY_ASSIGN(const auto version, number<std::uint8_t>());
  if (version <= kMaxProtocol) return {};
  return unsupported("the pickle has protocol " + std::to_string(version) +
                     ", and cfck reads 0 to 5; load it with torch.load in Python");
}

Result<void> PickleMachine::skip_frame() {
  auto frame = take(8);
  return frame ? Result<void>() : std::move(frame).error();
}

Result<void> PickleMachine::mark() {
  push(kMark);
  return {};
}

Result<void> PickleMachine::drop() {
  auto dropped = pop();
  return dropped ? Result<void>() : std::move(dropped).error();
}

Result<void> PickleMachine::drop_mark() {
  auto dropped = pop_mark();
  return dropped ? Result<void>() : std::move(dropped).error();
}

Result<void> PickleMachine::repeat() {
  CFCK_TRY_ASSIGN(const NodeId id, top());
  push(id);
  return {};
}

Result<void> PickleMachine::stop() {
  CFCK_TRY_ASSIGN(pickle_.root, pop());
  if (!stack_.empty()) return corrupt("the pickle leaves values behind");
  stopped_ = true;
  return {};
}

}  // namespace cfck::interop
