// A machine with a stack, as the module pickletools of Python documents it. It calls nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/bytes.hpp"
#include "interop/pytorch/pickle/calls.hpp"
#include "interop/pytorch/pickle/memo.hpp"

namespace cfck::interop {

// Makes at most one value for each byte, so memory is in proportion to the pickle.
class PickleMachine {
 public:
  PickleMachine(ByteView bytes, Pickle& pickle);

  // Reads the pickle at the start of the bytes. Errors: as read_pickle().
  Result<void> run();

 private:
  // Stands on the stack where a mark is.
  static constexpr NodeId kMark = 0xFFFFFFFF;

  // Operands, of as many bytes as the opcode or a number before them says. Error: kTruncated.
  Result<ByteView> take(std::uint64_t n_bytes);
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
  Result<std::string> line();

  Result<void> check_size() const;
  static Error underflow();

  void push(NodeId id) { stack_.push_back(id); }
  Result<NodeId> pop();
  Result<NodeId> top() const;
  // Takes what is above the last mark, and the mark.
  Result<std::vector<NodeId>> pop_mark();

  Result<void> push_value(NodeKind kind, std::int64_t integer = 0, double real = 0,
                          std::string text = {});
  // Values that pickles repeat: one node each.
  Result<void> push_small(NodeKind kind, std::uint8_t integer);
  Result<void> push_byte();
  Result<void> push_text(Result<std::string> text);
  Result<void> push_bytes(Result<std::string> bytes, NodeKind kind = NodeKind::kBytes);
  template <class T>
  Result<void> push_integer() {
    CFCK_TRY_ASSIGN(const T value, number<T>());
    return push_value(NodeKind::kInteger, static_cast<std::int64_t>(value));
  }
  template <class T>
  Result<void> push_counted_long() {
    CFCK_TRY_ASSIGN(const T n_bytes, number<T>());
    return push_long(n_bytes);
  }
  Result<void> push_long(std::uint64_t n_bytes);
  Result<void> push_float();
  // Values as protocols 0 and 1 write them.
  Result<void> push_decimal(bool is_long);
  Result<void> push_decimal_float();
  Result<void> push_quoted();
  Result<void> push_raw_unicode();

  Result<void> push_tuple(std::size_t n_items);
  Result<void> push_marked(NodeKind kind);
  Result<void> push_marked_dict();
  Result<void> push_frozenset();

  Result<void> memoize(std::uint64_t place);
  Result<void> recall(std::uint64_t place);
  template <class T>
  Result<void> put() {
    CFCK_TRY_ASSIGN(const T place, number<T>());
    return memoize(place);
  }
  template <class T>
  Result<void> get() {
    CFCK_TRY_ASSIGN(const T place, number<T>());
    return recall(place);
  }
  Result<std::uint64_t> decimal_place();

  using Add = Result<void> (PickleMachine::*)(const std::vector<NodeId>&);
  Result<void> append(const std::vector<NodeId>& items);
  Result<void> set_items(const std::vector<NodeId>& items);
  Result<void> add_items(const std::vector<NodeId>& items);
  Result<void> one_item(Add add);
  Result<void> marked_items(Add add);
  Result<void> one_pair();
  // Adds items to an object that is not known, as a list or a dict of its own.
  Result<void> add_part(NodeId object, NodeKind kind, const std::vector<NodeId>& items);

  Result<void> push_result(Result<NodeId> made);
  Result<void> push_global();
  Result<void> push_stack_global();
  Result<void> reduce();
  Result<void> reduce_with_keywords();
  Result<void> build();
  Result<void> persistent();
  Result<void> protocol();
  Result<void> skip_frame();
  Result<void> mark();
  Result<void> drop();
  Result<void> drop_mark();
  Result<void> repeat();
  Result<void> stop();

  // One opcode. The parts of it return nullopt for opcodes of the others.
  Result<void> step();
  std::optional<Result<void>> push_plain(std::uint8_t opcode);
  std::optional<Result<void>> push_characters(std::uint8_t opcode);
  std::optional<Result<void>> push_line(std::uint8_t opcode);
  std::optional<Result<void>> remember(std::uint8_t opcode);
  std::optional<Result<void>> combine(std::uint8_t opcode);
  std::optional<Result<void>> change(std::uint8_t opcode);

  ByteView bytes_;
  Pickle& pickle_;
  PickleCalls calls_;
  std::vector<NodeId> stack_;
  PickleMemo memo_;
  std::unordered_map<std::uint32_t, NodeId> small_;  // by kind and a byte
  std::size_t at_ = 0;
  std::size_t start_ = 0;  // of the opcode at hand
  bool stopped_ = false;
};

}  // namespace cfck::interop
