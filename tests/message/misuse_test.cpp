// Calls that are wrong, and messages that are damaged.
#include "base/bytes.hpp"
#include "tests/message/messages.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace cfck::test {
namespace {

Error encode_error(const Tensor& tensor, const MessageOptions& options,
                   std::size_t n_bytes = 1 << 16) {
  MessageWorkspace workspace;
  Bytes out(n_bytes);
  const auto done = encode_message(tensor.view(), options, out, workspace);
  return done ? Error{ErrorCode::kInternal, "no error", {}, {}} : done.error();
}

// Damaged bytes end where memory ends.
Error decode_error(const Bytes& bytes, std::size_t n_bytes) {
  MessageWorkspace workspace;
  const GuardedBytes message(bytes);
  Bytes out(n_bytes);
  const auto done = decode_message(message.bytes(), out, workspace);
  return done ? Error{ErrorCode::kInternal, "no error", {}, {}} : done.error();
}

TEST(MessageMisuse, Options) {
  const Tensor floats(DType::kF32, {100}, Pattern::kGaussian);
  const Tensor numbers(DType::kI32, {100}, Pattern::kCounter);
  MessageOptions options;
  options.codec = CodecChoice::kSpectral;
  EXPECT_EQ(encode_error(floats, options).code, ErrorCode::kUnsupported);
  EXPECT_EQ(max_message_bytes(options, DType::kF32, {100}).error().code, ErrorCode::kUnsupported);
  options = {};
  options.max_abs_error = 1e-3;
  EXPECT_EQ(encode_error(numbers, options).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(max_message_bytes(options, DType::kI32, {100}).error().code,
            ErrorCode::kInvalidArgument);
  options.max_rel_error = 1e-3;
  EXPECT_EQ(encode_error(floats, options).code, ErrorCode::kInvalidArgument);
  options = {};
  options.codec = CodecChoice::kDirect;
  EXPECT_EQ(encode_error(floats, options).code, ErrorCode::kInvalidArgument);
  options.codec = CodecChoice::kLossless;
  options.learned_steps = LearnedSteps{.step = 0.01};
  EXPECT_EQ(encode_error(floats, options).code, ErrorCode::kInvalidArgument);
  options.codec = CodecChoice::kSpectral;
  EXPECT_EQ(encode_error(floats, options).message, "no error");
  EXPECT_EQ(encode_error(numbers, options).code, ErrorCode::kInvalidArgument);
  options.max_abs_error = 1e-3;
  EXPECT_EQ(encode_error(floats, options).code, ErrorCode::kInvalidArgument);
  options.max_abs_error.reset();
  options.learned_steps->step = 0;
  EXPECT_EQ(encode_error(floats, options).code, ErrorCode::kInvalidArgument);
  options.learned_steps = LearnedSteps{.step = 0.01, .rows = {1, 2, 3}};  // of another shape
  EXPECT_EQ(encode_error(floats, options).code, ErrorCode::kInvalidArgument);
  options = {};
  options.entropy = EntropyId::kNone;
  EXPECT_EQ(encode_error(floats, options).code, ErrorCode::kInvalidArgument);
}

TEST(MessageMisuse, TensorsAndMemory) {
  const MessageOptions options;
  Tensor tensor(DType::kF32, {100}, Pattern::kGaussian);
  const std::uint64_t most = max_message_bytes(options, DType::kF32, {100}).value();
  EXPECT_EQ(most, 424U);
  EXPECT_EQ(encode_error(tensor, options, most - 1).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(encode_error(tensor, options, most).message, "no error");
  tensor.shape = {99};
  EXPECT_EQ(encode_error(tensor, options).code, ErrorCode::kInvalidArgument);
  tensor.shape = Shape(65, 1);
  EXPECT_EQ(encode_error(tensor, options).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(max_message_bytes(options, DType::kF32, {1ull << 40, 1ull << 40}).error().code,
            ErrorCode::kLimitExceeded);
  EXPECT_EQ(max_message_bytes(options, static_cast<DType>(99), {1}).error().code,
            ErrorCode::kUnsupported);
  TensorView on_device{DType::kF32, {100}, tensor.bytes, {DeviceKind::kCuda, 0}};
  MessageWorkspace workspace;
  Bytes out(most);
  EXPECT_EQ(encode_message(on_device, options, out, workspace).error().code,
            ErrorCode::kUnsupported);
  const Bytes message = encode(Tensor(DType::kF32, {100}, Pattern::kGaussian));
  EXPECT_EQ(decode_error(message, 399).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(decode_error(message, 400).message, "no error");
}

TEST(MessageMisuse, ResultsThatOverlapWhatIsRead) {
  const MessageOptions options;
  const Tensor tensor(DType::kF32, {100}, Pattern::kGaussian);
  const std::uint64_t most = max_message_bytes(options, DType::kF32, {100}).value();
  Bytes memory(2 * most);
  MessageWorkspace workspace;
  const auto encode_at = [&](std::size_t out_at) {
    const std::size_t values_at = most;
    std::copy(tensor.bytes.begin(), tensor.bytes.end(), memory.data() + values_at);
    const TensorView values{DType::kF32, {100}, ByteView(memory).subspan(values_at, 400), {}};
    return encode_message(values, options, MutableBytes(memory).subspan(out_at, most), workspace);
  };
  EXPECT_TRUE(encode_at(0));
  for (const std::size_t at : {std::size_t{1}, most - 1, most}) {
    EXPECT_EQ(encode_at(at).error().code, ErrorCode::kInvalidArgument) << at;
    EXPECT_NE(encode_at(at).error().message.find("overlaps the tensor"), std::string::npos);
  }
  const Bytes message = encode(tensor);
  const auto decode_at = [&](std::size_t out_at) {
    std::copy(message.begin(), message.end(), memory.begin());
    return decode_message(ByteView(memory).first(message.size()),
                          MutableBytes(memory).subspan(out_at, 400), workspace);
  };
  EXPECT_TRUE(decode_at(message.size()));
  EXPECT_EQ(decode_at(message.size() - 1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(decode_at(0).error().code, ErrorCode::kInvalidArgument);
}

// Messages of every kind.
std::vector<Bytes> messages() {
  MessageOptions lossy;
  lossy.max_abs_error = 0.01;
  MessageOptions chunked;
  chunked.chunk_elems = 200;
  MessageOptions chunked_lossy = lossy;
  chunked_lossy.chunk_elems = 200;
  const Tensor longer(DType::kBF16, {6, 100}, Pattern::kGaussian);
  const Tensor floats(DType::kF32, {4, 32}, Pattern::kGaussian);
  return {encode(floats),
          encode(floats, lossy),
          encode(longer, chunked),
          encode(longer, chunked_lossy),
          encode(Tensor(DType::kU8, {20}, Pattern::kRandomBits)),
          encode(Tensor(DType::kI16, {80}, Pattern::kCounter)),
          encode(Tensor(DType::kF32, {0}, Pattern::kZeros)),
          encode(Tensor(DType::kF32, {}, Pattern::kGaussian))};
}

TEST(MessageDamage, TheSamplesHaveTables) {
  EXPECT_TRUE(message_info(messages()[2]).value().has_chunks);
  EXPECT_TRUE(message_info(messages()[3]).value().has_chunks);
}

TEST(MessageDamage, EveryPrefixIsRefused) {
  for (const Bytes& message : messages()) {
    const std::uint64_t n_bytes = message_info(message).value().n_bytes;
    for (std::size_t n = 0; n < message.size(); ++n) {
      const Error error = decode_error(
          Bytes(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(n)), n_bytes);
      EXPECT_TRUE(error.code == ErrorCode::kTruncated || error.code == ErrorCode::kChecksum)
          << error.to_string();
      EXPECT_TRUE(error.byte_offset && *error.byte_offset <= n);
    }
  }
}

TEST(MessageDamage, EveryFlippedBitIsRefused) {
  for (const Bytes& message : messages()) {
    const std::uint64_t n_bytes = message_info(message).value().n_bytes;
    for (std::size_t bit = 0; bit < 8 * message.size(); ++bit) {
      Bytes damaged = message;
      damaged[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      const Error error = decode_error(damaged, n_bytes);
      EXPECT_EQ(error.code, bit < 8    ? ErrorCode::kCorrupt
                            : bit < 16 ? ErrorCode::kUnsupported
                                       : ErrorCode::kChecksum);
      EXPECT_TRUE(error.byte_offset);
    }
  }
}

// A flipped bit with a hash that is right again: an error with its place, or other values.
TEST(MessageDamage, FlippedBitsThatAreSealedAgain) {
  for (const Bytes& message : messages()) {
    for (std::size_t bit = 0; bit < 8 * (message.size() - 8); ++bit) {
      Bytes damaged = message;
      damaged[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      seal(damaged);
      const auto info = message_info(damaged);
      if (!info) {
        EXPECT_TRUE(info.error().byte_offset);
        EXPECT_NE(decode_error(damaged, 0).message, "no error");
      } else if (info->n_bytes <= 1 << 20) {
        const Error error = decode_error(damaged, info->n_bytes);
        EXPECT_TRUE(error.message == "no error" || error.byte_offset) << error.to_string();
      }
    }
  }
}

struct Hostile {
  const char* what;
  std::size_t at;
  Bytes bytes;
  ErrorCode code;
  std::uint64_t offset;
};

Bytes word(std::uint64_t value, std::size_t n_bytes) {
  Bytes bytes(8);
  store<std::uint64_t>(bytes.data(), value);
  bytes.resize(n_bytes);
  return bytes;
}

void expect_refused(const Bytes& message, const std::vector<Hostile>& cases) {
  for (const Hostile& one : cases) {
    Bytes damaged = message;
    std::copy(one.bytes.begin(), one.bytes.end(),
              damaged.begin() + static_cast<std::ptrdiff_t>(one.at));
    seal(damaged);
    const auto info = message_info(damaged);
    const Error error = decode_error(damaged, info ? info->n_bytes : 0);
    EXPECT_EQ(error.code, one.code) << one.what << ": " << error.to_string();
    EXPECT_EQ(error.byte_offset, one.offset) << one.what << ": " << error.to_string();
  }
}

TEST(MessageDamage, HostileHeaders) {
  const Bytes coded = encode(Tensor(DType::kF32, {128}, Pattern::kGaussian));
  ASSERT_EQ(message_info(coded).value().codec, CodecId::kLossless);
  expect_refused(coded,
                 {{"mark", 0, word(0xCE, 1), ErrorCode::kCorrupt, 0},
                  {"version", 1, word(1, 1), ErrorCode::kUnsupported, 1},
                  {"dtype", 2, word(0, 1), ErrorCode::kUnsupported, 2},
                  {"codec", 3, word(200, 1), ErrorCode::kUnsupported, 3},
                  {"raw with a stage", 3, word(0, 1), ErrorCode::kCorrupt, 4},
                  {"no stage", 4, word(0, 1), ErrorCode::kCorrupt, 4},
                  {"stage", 4, word(9, 1), ErrorCode::kUnsupported, 4},
                  {"rank", 5, word(65, 1), ErrorCode::kCorrupt, 5},
                  {"rank beyond the end", 5, word(64, 1), ErrorCode::kTruncated, coded.size() - 8},
                  {"flags", 6, word(2, 1), ErrorCode::kCorrupt, 6},
                  {"reserved", 7, word(1, 1), ErrorCode::kCorrupt, 7},
                  {"no values", 8, word(0, 8), ErrorCode::kCorrupt, 3},
                  {"too many values", 8, word(1ull << 63, 8), ErrorCode::kCorrupt, 8},
                  {"too many bytes", 8, word(1ull << 62, 8), ErrorCode::kCorrupt, 8},
                  {"too long for a chunk", 8, word((1ull << 24) + 1, 8), ErrorCode::kCorrupt, 6}});
  const Bytes raw = encode(Tensor(DType::kU8, {40}, Pattern::kRandomBits));
  ASSERT_EQ(message_info(raw).value().codec, CodecId::kRaw);
  expect_refused(raw, {{"raw with chunks", 6, word(1, 1), ErrorCode::kCorrupt, 6},
                       {"fewer values", 8, word(39, 8), ErrorCode::kCorrupt, 16},
                       {"more values", 8, word(41, 8), ErrorCode::kCorrupt, 16}});
}

TEST(MessageDamage, HostileTables) {
  MessageOptions options;
  options.chunk_elems = 400;
  const Bytes chunked = encode(Tensor(DType::kF32, {1000}, Pattern::kGaussian), options);
  ASSERT_TRUE(message_info(chunked).value().has_chunks);
  const auto first = load<std::uint32_t>(chunked.data() + 24);
  expect_refused(chunked,
                 {{"no values in a chunk", 16, word(0, 4), ErrorCode::kCorrupt, 16},
                  {"one chunk", 16, word(1000, 4), ErrorCode::kCorrupt, 16},
                  {"too many chunks", 16, word(1, 4), ErrorCode::kTruncated, chunked.size() - 8},
                  {"preamble", 20, word(1, 4), ErrorCode::kCorrupt, 20},
                  {"empty chunk", 24, word(0, 4), ErrorCode::kCorrupt, 24},
                  {"longer chunk", 24, word(first + 1, 4), ErrorCode::kCorrupt, 20},
                  {"most", 24, word(0xffffffff, 4), ErrorCode::kCorrupt, 20}});
}

TEST(MessageDamage, MessagesWithMore) {
  for (Bytes message : messages()) {
    const std::uint64_t n_bytes = message_info(message).value().n_bytes;
    message.insert(message.end() - 8, std::byte{0});
    seal(message);
    const Error error = decode_error(message, n_bytes);
    EXPECT_TRUE(error.code == ErrorCode::kCorrupt || error.code == ErrorCode::kTruncated)
        << error.to_string();
  }
}

}  // namespace
}  // namespace cfck::test
