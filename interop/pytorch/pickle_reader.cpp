#include "interop/pytorch/pickle_reader.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "interop/pytorch/pickle_calls.hpp"

namespace cfck::interop {
namespace {

constexpr int kMaxProtocol = 5;
// An item or character of a value takes at least a byte of the pickle, and may be copied a few
// times (into a set, from text to bytes).
constexpr std::uint64_t kItemsPerByte = 8;
constexpr std::uint64_t kMaxItems = 2 * kMaxPickleBytes;
// Stands on the stack where a mark is.
constexpr NodeId kMark = 0xFFFFFFFF;
constexpr std::string_view kHexDigits = "0123456789abcdef";

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
  std::string digits;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    digits += kHexDigits[bytes[i] >> 4];
    digits += kHexDigits[bytes[i] & 15];
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return (negative ? "-0x" : "0x") + digits;
}

// A machine with a stack, as the module pickletools of Python documents it. It makes at most one
// value for each byte, so memory is in proportion to the pickle.
class Machine {
 public:
  Machine(ByteView bytes, Pickle& pickle)
      : bytes_(bytes),
        pickle_(pickle),
        calls_(pickle, std::min(kItemsPerByte * (bytes.size() + 1), kMaxItems)) {}

  Result<void> run() {
    while (!stopped_) {
      const std::size_t start = at_;
      auto done = step();
      if (done) done = check_size();
      if (done) continue;
      Error error = std::move(done).error();
      return error.byte_offset ? std::move(error) : std::move(error).at_byte(start);
    }
    return {};
  }

 private:
  // An operand of this many bytes. Error: kTruncated.
  Result<ByteView> take(std::uint64_t n_bytes) {
    if (n_bytes > bytes_.size() - at_) {
      return truncated("the pickle ends inside an operand; download the file again");
    }
    const ByteView operand = bytes_.subspan(at_, n_bytes);
    at_ += n_bytes;
    return operand;
  }
  template <class T>
  Result<T> number() {
    CFCK_TRY_ASSIGN(const ByteView operand, take(sizeof(T)));
    return load<T>(operand.data());
  }
  template <class T>
  Result<std::string> counted() {
    CFCK_TRY_ASSIGN(const T n_bytes, number<T>());
    CFCK_TRY_ASSIGN(const ByteView operand, take(n_bytes));
    return std::string(reinterpret_cast<const char*>(operand.data()), operand.size());
  }
  Result<std::string> line() {
    for (std::size_t end = at_; end < bytes_.size(); ++end) {
      if (bytes_[end] != std::byte{'\n'}) continue;
      std::string text(reinterpret_cast<const char*>(bytes_.data() + at_), end - at_);
      at_ = end + 1;
      return text;
    }
    return truncated("the pickle ends inside a name; download the file again");
  }

  Result<void> check_size() const {
    if (std::max(stack_.size(), memo_.size()) > kMaxPickledValues) return too_many_values();
    return calls_.check_size();
  }

  void push(NodeId id) { stack_.push_back(id); }
  Result<NodeId> pop() {
    if (stack_.empty() || stack_.back() == kMark) return underflow();
    const NodeId id = stack_.back();
    stack_.pop_back();
    return id;
  }
  Result<NodeId> top() const {
    if (stack_.empty() || stack_.back() == kMark) return underflow();
    return stack_.back();
  }
  // Takes what is above the last mark, and the mark.
  Result<std::vector<NodeId>> pop_mark() {
    const auto mark = std::find(stack_.rbegin(), stack_.rend(), kMark);
    if (mark == stack_.rend()) return underflow();
    std::vector<NodeId> items(mark.base(), stack_.end());
    stack_.resize(stack_.size() - items.size() - 1);
    return items;
  }
  static Error underflow() {
    return corrupt("the pickle takes more values than there are; download the file again");
  }

  Result<void> push_value(NodeKind kind, std::int64_t integer = 0, double real = 0,
                          std::string text = {}) {
    Node node;
    node.kind = kind;
    node.integer = integer;
    node.real = real;
    node.text = std::move(text);
    push(calls_.add(std::move(node)));
    return {};
  }
  // Values that pickles repeat: one node each.
  Result<void> push_small(NodeKind kind, std::uint8_t integer) {
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
  Result<void> push_byte() {
    CFCK_TRY_ASSIGN(const auto value, number<std::uint8_t>());
    return push_small(NodeKind::kInteger, value);
  }
  Result<void> push_text(Result<std::string> text) {
    if (!text) return std::move(text).error();
    if (!valid_utf8(*text)) return corrupt("the pickle has a string that is not valid UTF-8");
    return push_value(NodeKind::kText, 0, 0, *std::move(text));
  }
  Result<void> push_bytes(Result<std::string> bytes) {
    if (!bytes) return std::move(bytes).error();
    return push_value(NodeKind::kBytes, 0, 0, *std::move(bytes));
  }
  template <class T>
  Result<void> push_integer() {
    CFCK_TRY_ASSIGN(const T value, number<T>());
    return push_value(NodeKind::kInteger, static_cast<std::int64_t>(value));
  }
  Result<void> push_long(std::uint64_t n_bytes) {
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
  Result<void> push_float() {
    CFCK_TRY_ASSIGN(const ByteView operand, take(8));
    std::uint64_t bits = 0;
    for (const std::byte byte : operand) bits = bits << 8 | static_cast<std::uint64_t>(byte);
    return push_value(NodeKind::kFloat, 0, std::bit_cast<double>(bits));
  }
  Result<void> push_tuple(std::size_t n_items) {
    std::vector<NodeId> items(n_items);
    for (std::size_t i = n_items; i-- > 0;) {
      CFCK_TRY_ASSIGN(items[i], pop());
    }
    push(calls_.add(NodeKind::kTuple, std::move(items)));
    return {};
  }
  Result<void> push_marked(NodeKind kind) {
    CFCK_TRY_ASSIGN(std::vector<NodeId> items, pop_mark());
    push(calls_.add(kind, std::move(items)));
    return {};
  }

  Result<void> memoize(std::uint64_t place) {
    CFCK_TRY_ASSIGN(const NodeId id, top());
    memo_.insert_or_assign(place, id);
    return {};
  }
  template <class T>
  Result<void> put() {
    CFCK_TRY_ASSIGN(const T place, number<T>());
    return memoize(place);
  }
  template <class T>
  Result<void> get() {
    CFCK_TRY_ASSIGN(const T place, number<T>());
    const auto found = memo_.find(place);
    if (found == memo_.end()) return corrupt("the pickle refers to a value that it does not have");
    push(found->second);
    return {};
  }

  Result<void> append(const std::vector<NodeId>& items) {
    CFCK_TRY_ASSIGN(const NodeId list, top());
    if (calls_.at(list).kind != NodeKind::kList) return corrupt("the pickle appends to no list");
    auto& all = calls_.at(list).items;
    all.insert(all.end(), items.begin(), items.end());
    return {};
  }
  Result<void> set_items(const std::vector<NodeId>& items) {
    CFCK_TRY_ASSIGN(const NodeId dict, top());
    const NodeKind kind = calls_.at(dict).kind;
    if ((kind != NodeKind::kDict && kind != NodeKind::kOrderedDict && kind != NodeKind::kCounter) ||
        items.size() % 2 != 0) {
      return corrupt("the pickle sets items of no dict");
    }
    for (std::size_t i = 0; i < items.size(); i += 2) CFCK_TRY(calls_.check_key(items[i]));
    auto& all = calls_.at(dict).items;
    all.insert(all.end(), items.begin(), items.end());
    return {};
  }
  Result<void> add_items(const std::vector<NodeId>& items) {
    CFCK_TRY_ASSIGN(const NodeId set, top());
    if (calls_.at(set).kind != NodeKind::kSet) return corrupt("the pickle adds to no set");
    for (const NodeId item : items) CFCK_TRY(calls_.check_key(item));
    auto& all = calls_.at(set).items;
    all.insert(all.end(), items.begin(), items.end());
    return {};
  }

  Result<void> push_result(Result<NodeId> made) {
    if (!made) return std::move(made).error();
    push(*made);
    return {};
  }
  Result<void> push_global() {
    CFCK_TRY_ASSIGN(const std::string module, line());
    CFCK_TRY_ASSIGN(const std::string name, line());
    return push_result(calls_.global(module, name));
  }
  Result<void> push_stack_global() {
    CFCK_TRY_ASSIGN(const NodeId name, pop());
    CFCK_TRY_ASSIGN(const NodeId module, pop());
    if (calls_.at(name).kind != NodeKind::kText || calls_.at(module).kind != NodeKind::kText) {
      return corrupt("the pickle names a global by something that is no text");
    }
    return push_result(
        calls_.global(std::string(calls_.at(module).text), std::string(calls_.at(name).text)));
  }
  Result<void> reduce() {
    CFCK_TRY_ASSIGN(const NodeId arguments, pop());
    CFCK_TRY_ASSIGN(const NodeId function, pop());
    return push_result(calls_.call(function, arguments));
  }
  Result<void> build() {
    CFCK_TRY_ASSIGN(const NodeId state, pop());
    CFCK_TRY_ASSIGN(const NodeId object, top());
    return calls_.build(object, state);
  }
  Result<void> persistent() {
    CFCK_TRY_ASSIGN(const NodeId id, pop());
    return push_result(calls_.storage(id));
  }
  Result<void> protocol() {
    CFCK_TRY_ASSIGN(const auto version, number<std::uint8_t>());
    if (version <= kMaxProtocol) return {};
    return unsupported("the pickle has protocol " + std::to_string(version) +
                       ", and cfck reads 2 to 5; load it with torch.load in Python");
  }
  Result<void> stop() {
    CFCK_TRY_ASSIGN(pickle_.root, pop());
    if (!stack_.empty()) return corrupt("the pickle leaves values behind");
    if (at_ != bytes_.size()) return corrupt("there are bytes behind the end of the pickle");
    stopped_ = true;
    return {};
  }

  Result<void> one_item(Result<void> (Machine::*add)(const std::vector<NodeId>&)) {
    CFCK_TRY_ASSIGN(const NodeId item, pop());
    return (this->*add)({item});
  }
  Result<void> marked_items(Result<void> (Machine::*add)(const std::vector<NodeId>&)) {
    CFCK_TRY_ASSIGN(const std::vector<NodeId> items, pop_mark());
    return (this->*add)(items);
  }
  Result<void> one_pair() {
    CFCK_TRY_ASSIGN(const NodeId value, pop());
    CFCK_TRY_ASSIGN(const NodeId key, pop());
    return set_items({key, value});
  }
  Result<void> mark() {
    push(kMark);
    return {};
  }

  Result<void> step() {
    CFCK_TRY_ASSIGN(const auto opcode, number<std::uint8_t>());
    if (auto done = push_plain(opcode)) return *std::move(done);
    if (auto done = combine(opcode)) return *std::move(done);
    return unsupported(std::string("the pickle has opcode 0x") + kHexDigits[opcode >> 4] +
                       kHexDigits[opcode & 15] +
                       ", which files of PyTorch do not have; load it with torch.load in Python");
  }

  // Opcodes that push a value, and those of the memo; nullopt for any other.
  std::optional<Result<void>> push_plain(std::uint8_t opcode) {
    switch (opcode) {
      case 0x80:
        return protocol();
      case 0x95:
        return skip_frame();
      case 'N':
        return push_small(NodeKind::kNone, 0);
      case 0x88:
        return push_small(NodeKind::kBool, 1);
      case 0x89:
        return push_small(NodeKind::kBool, 0);
      case 'J':
        return push_integer<std::int32_t>();
      case 'K':
        return push_byte();
      case 'M':
        return push_integer<std::uint16_t>();
      case 0x8a:
        return push_counted_long<std::uint8_t>();
      case 0x8b:
        return push_counted_long<std::uint32_t>();
      case 'G':
        return push_float();
      case '}':
        return push_result(calls_.add(NodeKind::kDict, {}));
      case ']':
        return push_result(calls_.add(NodeKind::kList, {}));
      case ')':
        return push_result(calls_.add(NodeKind::kTuple, {}));
      case 0x8f:
        return push_result(calls_.add(NodeKind::kSet, {}));
      case 'q':
        return put<std::uint8_t>();
      case 'r':
        return put<std::uint32_t>();
      case 0x94:
        return memoize(memo_.size());
      case 'h':
        return get<std::uint8_t>();
      case 'j':
        return get<std::uint32_t>();
      case 'c':
        return push_global();
      case 0x93:
        return push_stack_global();
      default:
        return push_characters(opcode);
    }
  }

  // Opcodes that push text and bytes; nullopt for any other.
  std::optional<Result<void>> push_characters(std::uint8_t opcode) {
    switch (opcode) {
      case 'X':
        return push_text(counted<std::uint32_t>());
      case 'T':
        return push_text(counted<std::uint32_t>());
      case 'U':
        return push_text(counted<std::uint8_t>());
      case 0x8c:
        return push_text(counted<std::uint8_t>());
      case 0x8d:
        return push_text(counted<std::uint64_t>());
      case 'B':
        return push_bytes(counted<std::uint32_t>());
      case 'C':
        return push_bytes(counted<std::uint8_t>());
      case 0x8e:
        return push_bytes(counted<std::uint64_t>());
      default:
        return std::nullopt;
    }
  }

  // Opcodes that make something of what is on the stack; nullopt for any other.
  std::optional<Result<void>> combine(std::uint8_t opcode) {
    switch (opcode) {
      case '(':
        return mark();
      case 't':
        return push_marked(NodeKind::kTuple);
      case 'l':
        return push_marked(NodeKind::kList);
      case 'd':
        return push_marked_dict();
      case 0x85:
        return push_tuple(1);
      case 0x86:
        return push_tuple(2);
      case 0x87:
        return push_tuple(3);
      case 0x91:
        return push_frozenset();
      case 'a':
        return one_item(&Machine::append);
      case 'e':
        return marked_items(&Machine::append);
      case 's':
        return one_pair();
      case 'u':
        return marked_items(&Machine::set_items);
      case 0x90:
        return marked_items(&Machine::add_items);
      case 'R':
        return reduce();
      case 0x81:
        return reduce();
      case 'b':
        return build();
      case 'Q':
        return persistent();
      case '0':
        return drop();
      case '.':
        return stop();
      default:
        return std::nullopt;
    }
  }

  Result<void> skip_frame() {
    auto frame = take(8);
    return frame ? Result<void>() : std::move(frame).error();
  }
  template <class T>
  Result<void> push_counted_long() {
    CFCK_TRY_ASSIGN(const T n_bytes, number<T>());
    return push_long(n_bytes);
  }
  Result<void> push_marked_dict() {
    CFCK_TRY_ASSIGN(const std::vector<NodeId> items, pop_mark());
    push(calls_.add(NodeKind::kDict, {}));
    return set_items(items);
  }
  Result<void> push_frozenset() {
    CFCK_TRY_ASSIGN(std::vector<NodeId> items, pop_mark());
    for (const NodeId item : items) CFCK_TRY(calls_.check_key(item));
    push(calls_.add(NodeKind::kFrozenset, std::move(items)));
    return {};
  }
  Result<void> drop() {
    auto dropped = pop();
    return dropped ? Result<void>() : std::move(dropped).error();
  }

  ByteView bytes_;
  Pickle& pickle_;
  PickleCalls calls_;
  std::vector<NodeId> stack_;
  std::unordered_map<std::uint64_t, NodeId> memo_;
  std::unordered_map<std::uint32_t, NodeId> small_;  // by kind and integer
  std::size_t at_ = 0;
  bool stopped_ = false;
};

}  // namespace

Result<Pickle> read_pickle(ByteView bytes) {
  if (bytes.size() > kMaxPickleBytes) {
    return limit_exceeded("the pickle has " + std::to_string(bytes.size()) +
                          " bytes, and cfck reads up to 64 MiB; store long lists as tensors");
  }
  Pickle pickle;
  Machine machine(bytes, pickle);
  CFCK_TRY(machine.run());
  return pickle;
}

}  // namespace cfck::interop
