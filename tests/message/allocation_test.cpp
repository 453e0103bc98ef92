// Once warm, messages need no memory.
#include "tests/message/messages.hpp"
#include "tests/support/failing_new.hpp"

namespace cfck::test {
namespace {

// Returns the number of allocations of one call after two others.
template <class Call>
std::uint64_t allocations_once_warm(Call&& call) {
  call();
  call();
  const std::uint64_t before = n_allocations();
  call();
  return n_allocations() - before;
}

struct Case {
  DType dtype;
  Shape shape;
  Pattern pattern;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> made;
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kI32,
                              DType::kU8, DType::kF8E4M3}) {
      for (const Shape& shape : {Shape{32}, Shape{16384}, Shape{40000}, Shape{300, 1000}}) {
        for (const Pattern pattern :
             {Pattern::kGaussian, Pattern::kSparse, Pattern::kSparseSigned, Pattern::kConstant,
              Pattern::kCounter, Pattern::kZeroGroups, Pattern::kSpecials, Pattern::kRandomBits}) {
          made.push_back({dtype, shape, pattern});
        }
      }
    }
    return made;
  }();
  return all;
}

bool is_float(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kBF16 ||
         dtype == DType::kF16;
}

void expect_none(const Tensor& tensor, const MessageOptions& options, bool counts_encoding) {
  MessageWorkspace workspace;
  Bytes message(max_message_bytes(options, tensor.dtype, tensor.shape).value());
  const TensorView view = tensor.view();
  std::uint64_t n_bytes = 0;
  const std::uint64_t encoding = allocations_once_warm(
      [&] { n_bytes = encode_message(view, options, message, workspace).value(); });
  if (counts_encoding) {
    EXPECT_EQ(encoding, 0U) << codec::describe(tensor.dtype, Pattern::kGaussian, 0);
  }
  Bytes out(tensor.bytes.size());
  EXPECT_EQ(allocations_once_warm(
                [&] { decode_message(ByteView(message).first(n_bytes), out, workspace).value(); }),
            0U);
}

TEST(MessageAllocations, Lossless) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(codec::describe(one.dtype, one.pattern, count(one.shape)));
    const Tensor tensor(one.dtype, one.shape, one.pattern);
    for (const EntropyId entropy : codec::kAllStages) {
      MessageOptions options;
      options.entropy = entropy;
      expect_none(tensor, options, true);
    }
  }
}

TEST(MessageAllocations, DecodingWithBounds) {
  for (const Case& one : cases()) {
    if (!is_float(one.dtype)) {
      continue;
    }
    SCOPED_TRACE(codec::describe(one.dtype, one.pattern, count(one.shape)));
    const Tensor tensor(one.dtype, one.shape, one.pattern);
    MessageOptions options;
    options.max_abs_error = 1e-2;
    expect_none(tensor, options, false);
  }
}

// The plan of codec direct allocates, however many chunks there are.
TEST(MessageAllocations, EncodingWithBoundsAllocatesForThePlanAlone) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Pattern pattern : {Pattern::kGaussian, Pattern::kSparse}) {
      const Tensor tensor(dtype, {80, 1000}, pattern);
      std::vector<std::uint64_t> found;
      for (const std::uint32_t chunk_elems : {2000u, 8000u}) {
        MessageOptions options;
        options.max_abs_error = 1e-2;
        options.chunk_elems = chunk_elems;
        MessageWorkspace workspace;
        Bytes message(max_message_bytes(options, dtype, tensor.shape).value());
        const TensorView view = tensor.view();
        found.push_back(allocations_once_warm(
            [&] { encode_message(view, options, message, workspace).value(); }));
      }
      EXPECT_EQ(found[0], found[1]) << codec::describe(dtype, pattern, 80000);
      EXPECT_LT(found[0], 100U);
    }
  }
}

}  // namespace
}  // namespace cfck::test
