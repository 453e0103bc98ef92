// The table of opcodes, each with its step of the machine.
#include "base/text.hpp"
#include "interop/pytorch/pickle/machine.hpp"

namespace cfck::interop {

Result<void> PickleMachine::step() {
  CFCK_TRY_ASSIGN(const auto opcode, number<std::uint8_t>());
  for (const auto part :
       {&PickleMachine::push_plain, &PickleMachine::push_characters, &PickleMachine::remember,
        &PickleMachine::combine, &PickleMachine::change, &PickleMachine::push_line}) {
    if (auto done = (this->*part)(opcode)) return *std::move(done);
  }
  return unsupported(std::string("the pickle has opcode 0x") + kHexDigits[opcode >> 4] +
                     kHexDigits[opcode & 15] +
                     ", which files of PyTorch do not have; load it with torch.load in Python");
}

// Numbers, None and bools, and containers without items.
std::optional<Result<void>> PickleMachine::push_plain(std::uint8_t opcode) {
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
    default:
      return std::nullopt;
  }
}

// Text and bytes.
std::optional<Result<void>> PickleMachine::push_characters(std::uint8_t opcode) {
  switch (opcode) {
    case 'T':
    case 'X':
      return push_text(counted<std::uint32_t>());
    case 'U':
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
    case 0x96:
      return push_bytes(counted<std::uint64_t>(), NodeKind::kBytearray);
    default:
      return std::nullopt;
  }
}

// Values that protocols 0 and 1 write as lines of text.
std::optional<Result<void>> PickleMachine::push_line(std::uint8_t opcode) {
  switch (opcode) {
    case 'I':
      return push_decimal(/*is_long=*/false);
    case 'L':
      return push_decimal(/*is_long=*/true);
    case 'F':
      return push_decimal_float();
    case 'S':
      return push_quoted();
    case 'V':
      return push_raw_unicode();
    case 'P':
      return unsupported(
          "the pickle has protocol 0, which cannot name tensors: torch.load does not read it "
          "either; save it with another pickle_protocol");
    default:
      return std::nullopt;
  }
}

// The memo, and what names something in it or elsewhere.
std::optional<Result<void>> PickleMachine::remember(std::uint8_t opcode) {
  switch (opcode) {
    case 'q':
      return put<std::uint8_t>();
    case 'r':
      return put<std::uint32_t>();
    case 'p': {
      auto place = decimal_place();
      return place ? memoize(*place) : std::move(place).error();
    }
    case 0x94:
      return memoize(memo_.size());
    case 'h':
      return get<std::uint8_t>();
    case 'j':
      return get<std::uint32_t>();
    case 'g': {
      auto place = decimal_place();
      return place ? recall(*place) : std::move(place).error();
    }
    case 'c':
      return push_global();
    case 0x93:
      return push_stack_global();
    case 'Q':
      return persistent();
    default:
      return std::nullopt;
  }
}

// Opcodes that make a value of those on the stack.
std::optional<Result<void>> PickleMachine::combine(std::uint8_t opcode) {
  switch (opcode) {
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
    case 'R':
    case 0x81:
      return reduce();
    case 0x92:
      return reduce_with_keywords();
    default:
      return std::nullopt;
  }
}

// Opcodes that change a value or the stack.
std::optional<Result<void>> PickleMachine::change(std::uint8_t opcode) {
  switch (opcode) {
    case '(':
      return mark();
    case 'a':
      return one_item(&PickleMachine::append);
    case 'e':
      return marked_items(&PickleMachine::append);
    case 's':
      return one_pair();
    case 'u':
      return marked_items(&PickleMachine::set_items);
    case 0x90:
      return marked_items(&PickleMachine::add_items);
    case 'b':
      return build();
    case '0':
      return drop();
    case '1':
      return drop_mark();
    case '2':
      return repeat();
    case '.':
      return stop();
    default:
      return std::nullopt;
  }
}

}  // namespace cfck::interop
