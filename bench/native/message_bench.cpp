// Measures what a message costs beside the codec: time of encoding and decoding against the same
// calls of the codec alone, as paired ratios, and bytes beside the payload. One thread, everything
// warm, values of a bell curve.
//
//   build/bench/message_bench [N_VALUES [REPEATS]]     16384 values (64 KiB of F32) and 301
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "base/hashing/hashing.hpp"
#include "cfck/message.hpp"
#include "codec/codec.hpp"
#include "codec/lossy.hpp"

namespace {

using namespace cfck;
using namespace cfck::codec;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

// Medians of both times, and of their ratio, of calls that take turns.
template <class First, class Second>
void compare(const char* what, int n_repeats, First&& message, Second&& alone) {
  std::vector<double> of_message;
  std::vector<double> of_codec;
  std::vector<double> ratios;
  for (int i = 0; i < n_repeats + 3; ++i) {
    double times[2];
    for (int turn = 0; turn < 2; ++turn) {
      const bool is_message = (turn == 0) == (i % 2 == 0);
      const double start = seconds();
      is_message ? message() : alone();
      times[is_message ? 0 : 1] = seconds() - start;
    }
    if (i >= 3) {  // warm by then
      of_message.push_back(times[0]);
      of_codec.push_back(times[1]);
      ratios.push_back(times[0] / times[1]);
    }
  }
  std::printf("%-28s %9.1f us %9.1f us %8.3f\n", what, median(of_message) * 1e6,
              median(of_codec) * 1e6, median(ratios));
}

std::vector<float> bell(std::size_t n) {
  std::mt19937 random(1);
  std::vector<float> values(n);
  for (float& value : values) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) {
      sum += static_cast<double>(random()) / 4294967296.0;
    }
    value = static_cast<float>(sum * 0.04);
  }
  return values;
}

void check(const Result<void>& result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().to_string().c_str());
    std::exit(EXIT_FAILURE);
  }
}

// Whether short values are tried with both entropy stages (encode/trial/candidates.cpp).
bool tries_both(const MessageOptions& options, std::uint64_t n) {
  return options.level == EncodeLevel::kDefault && n <= 1 << 15;
}

// The calls of the codecs that a message of one chunk makes.
void encode_alone(const TensorView& tensor, const MessageOptions& options, Scratch& scratch,
                  EncodedChunk& chunk, std::vector<std::byte>& decoded) {
  const std::uint64_t n = tensor.data.size() / sizeof(float);
  if (!options.max_abs_error) {
    ChunkInfo info{tensor.dtype, options.entropy, ScanId::kStorageOrder, n, {}};
    info.level = options.level;
    check(find_encoder(CodecId::kLossless)->encode(info, tensor.data, scratch, chunk));
    if (tries_both(options, n)) {
      info.entropy = EntropyId::kZstd;
      check(find_encoder(CodecId::kLossless)->encode(info, tensor.data, scratch, chunk));
    }
    return;
  }
  LossyRecord record;
  record.dtype = tensor.dtype;
  record.shape = tensor.shape;
  record.chunk_elems = n;
  record.bound = {BoundKind::kAbs, false, *options.max_abs_error};
  record.is_forced = true;
  record.entropy = options.entropy;
  record.level = options.level;
  const ReadValues read = [&](std::uint64_t first, std::uint64_t count, std::vector<std::byte>&) {
    return Result<ByteView>(tensor.data.subspan(first * sizeof(float), count * sizeof(float)));
  };
  auto decision = find_lossy_encoder(CodecId::kDirect)->plan(record, read, scratch).value();
  decoded.resize(tensor.data.size());
  ErrorTotals errors;
  check(decision.plan->encode(0, tensor.data, scratch, decoded, chunk, errors));
}

void measure(const char* what, const TensorView& tensor, const MessageOptions& options,
             int n_repeats) {
  std::vector<std::byte> message(max_message_bytes(options, tensor.dtype, tensor.shape).value());
  std::vector<std::byte> out(tensor.data.size());
  MessageWorkspace workspace;
  Scratch scratch;
  EncodedChunk chunk;
  std::vector<std::byte> decoded;
  std::uint64_t n_bytes = encode_message(tensor, options, message, workspace).value();
  encode_alone(tensor, options, scratch, chunk, decoded);
  const MessageInfo info = message_info(message).value();
  std::printf("%s: %zu bytes of values, %llu in a message, %llu beside the payload\n", what,
              tensor.data.size(), static_cast<unsigned long long>(n_bytes),
              static_cast<unsigned long long>(16 + 8 * info.shape.size()));
  std::printf("%-28s %12s %12s %8s\n", "", "message", "codec", "ratio");
  compare(
      "encode", n_repeats,
      [&] { n_bytes = encode_message(tensor, options, message, workspace).value(); },
      [&] { encode_alone(tensor, options, scratch, chunk, decoded); });
  const ByteView whole = ByteView(message).first(n_bytes);
  const std::size_t header_bytes = 8 + 8 * info.shape.size();
  const ByteView payload = whole.subspan(header_bytes, n_bytes - header_bytes - 8);
  ChunkInfo chunk_info{info.dtype, info.entropy, ScanId::kStorageOrder, info.n_elems, {}};
  chunk_info.shape = info.shape;
  const Decoder* const decoder = find_decoder(info.codec);
  if (decoder == nullptr) {
    std::printf("the message is raw: no codec decodes it\n");
    return;
  }
  compare(
      "decode", n_repeats, [&] { check(decode_message(whole, out, workspace)); },
      [&] { check(decoder->decode(chunk_info, payload, scratch, out)); });
  std::uint64_t hashes = 0;
  compare(
      "decode, codec and hash", n_repeats, [&] { check(decode_message(whole, out, workspace)); },
      [&] {
        hashes += detail::tiled_hash64(whole.first(n_bytes - 8));
        check(decoder->decode(chunk_info, payload, scratch, out));
      });
  if (hashes == 1) {
    std::puts("");  // so that they are computed
  }
}

}  // namespace

int main(int n_arguments, char** arguments) {
  const std::size_t n = n_arguments > 1 ? std::strtoull(arguments[1], nullptr, 10) : 16384;
  const int n_repeats = n_arguments > 2 ? std::atoi(arguments[2]) : 301;
  const std::vector<float> values = bell(n);
  const TensorView tensor{DType::kF32, {n}, std::as_bytes(std::span(values)), {}};
  MessageOptions options;
  measure("lossless", tensor, options, n_repeats);
  options.level = EncodeLevel::kFast;
  measure("lossless, level fast", tensor, options, n_repeats);
  options.codec = CodecChoice::kDirect;
  options.max_abs_error = 1e-4;
  measure("max_abs_error 1e-4, level fast", tensor, options, n_repeats);
}
