// Bits per weight and speed of the spectral codec, one thread, memory to memory, on the float
// tensors of two or more dimensions of a safetensors file: one step for all of them, found for
// the bits per weight that are asked for, before anything is timed. Plans, chunks, decoding and
// memcpy take turns. Prints JSON. fraction_of_memcpy is that of a memcpy from memory to memory;
// fraction_of_cached_memcpy that of one of the same tensors, which stay in the cache if they fit.
//
//   build/bench/spectral_bench [--bits B] [--states N] [--lambda L] [--entropy E]
//                              [--repetitions N] FILE
//   CFCK_CPU=v3 build/bench/spectral_bench FILE     another CPU level
//
// Every chunk that is decoded is compared once with what its encoder said.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/cpu/level.hpp"
#include "bench/native/arguments.hpp"
#include "bench/native/weights.hpp"
#include "codec/lossy.hpp"
#include "spectral/plan/request.hpp"

namespace {

using namespace cfck;
using namespace cfck::spectral;

constexpr std::uint64_t kChunkElems = std::uint64_t{1} << 18;
// More than caches hold.
constexpr std::size_t kCopiedBytes = std::size_t{1} << 28;

struct Coded {
  LossyRecord record;
  ByteView values;
  LossyDecision decision;
  std::vector<EncodedChunk> chunks;
  std::vector<std::byte> decoded;

  std::uint64_t n_values() const { return values.size() / value_bytes(); }
  std::size_t value_bytes() const { return bits_per_element(record.dtype) / 8; }
  MutableBytes part_of(MutableBytes all, std::uint64_t first) const {
    const std::uint64_t n = std::min(record.chunk_elems, n_values() - first);
    return all.subspan(first * value_bytes(), n * value_bytes());
  }
};

// Chunks of whole rows where these fit, as files have them.
std::uint64_t chunk_elems_of(const bench::Tensor& tensor, std::uint64_t n_values) {
  const std::uint64_t row_values = n_values / tensor.shape[0];
  return row_values <= kChunkElems ? kChunkElems / row_values * row_values : kChunkElems;
}

std::vector<Coded> records_of(const bench::Weights& weights, const SpectralRequest& request,
                              EntropyId entropy) {
  std::vector<Coded> records;
  for (const bench::Tensor& tensor : weights.tensors) {
    const bool is_coded = find_lossy_encoder(CodecId::kSpectral)->supports(tensor.dtype) &&
                          tensor.shape.size() >= 2 && !tensor.values.empty();
    if (!is_coded) {
      continue;
    }
    Coded& coded = records.emplace_back();
    coded.record.dtype = tensor.dtype;
    coded.record.shape = tensor.shape;
    coded.values = tensor.values;
    coded.record.chunk_elems = chunk_elems_of(tensor, coded.n_values());
    coded.record.is_forced = true;
    coded.record.entropy = entropy;
    coded.record.request = std::make_shared<SpectralRequest>(request);
    coded.decoded.resize(tensor.values.size());
  }
  return records;
}

Result<void> plan(Coded& coded, Scratch& scratch) {
  const ReadValues read = [&](std::uint64_t first, std::uint64_t n, std::vector<std::byte>&) {
    return Result<ByteView>(
        coded.values.subspan(first * coded.value_bytes(), n * coded.value_bytes()));
  };
  CFCK_TRY_ASSIGN(coded.decision,
                  find_lossy_encoder(CodecId::kSpectral)->plan(coded.record, read, scratch));
  return {};
}

Result<void> encode(Coded& coded, Scratch& scratch, ErrorTotals& totals) {
  const std::uint64_t chunk_elems = coded.record.chunk_elems;
  coded.chunks.resize((coded.n_values() + chunk_elems - 1) / chunk_elems);
  for (std::uint64_t first = 0; first < coded.n_values(); first += chunk_elems) {
    const MutableBytes decoded = coded.part_of(coded.decoded, first);
    ErrorTotals errors;
    CFCK_TRY(coded.decision.plan->encode(
        first, coded.values.subspan(first * coded.value_bytes(), decoded.size()), scratch, decoded,
        coded.chunks[first / chunk_elems], errors));
    totals.sum_of_squares += errors.sum_of_squares;
  }
  return {};
}

Result<void> decode(Coded& coded, Scratch& scratch, MutableBytes out) {
  const std::uint64_t chunk_elems = coded.record.chunk_elems;
  for (std::uint64_t first = 0; first < coded.n_values(); first += chunk_elems) {
    const MutableBytes part = coded.part_of(out, first);
    ChunkInfo info;
    info.dtype = coded.record.dtype;
    info.entropy = coded.decision.plan->entropy();
    info.n_elems = part.size() / coded.value_bytes();
    info.first_elem = first;
    info.shape = coded.record.shape;
    info.preamble = coded.decision.plan->preamble();
    CFCK_TRY(find_decoder(CodecId::kSpectral)
                 ->decode(info, coded.chunks[first / chunk_elems].payload, scratch, part));
  }
  return {};
}

template <class Action>
Result<double> seconds_of(std::vector<Coded>& records, Action&& action) {
  const auto start = std::chrono::steady_clock::now();
  for (Coded& coded : records) {
    CFCK_TRY(action(coded));
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Totals of one encoding of everything.
struct Size {
  double n_values = 0;
  double n_bytes = 0;
  double sum_of_squares = 0;

  double bits() const { return 8 * n_bytes / n_values; }
};

Result<Size> size_at(std::vector<Coded>& records, double step, Scratch& scratch) {
  Size size;
  ErrorTotals totals;
  for (Coded& coded : records) {
    SpectralRequest request = *spectral_request(coded.record);
    request.step = step;
    coded.record.request = std::make_shared<SpectralRequest>(std::move(request));
    CFCK_TRY(plan(coded, scratch));
    CFCK_TRY(encode(coded, scratch, totals));
    size.n_values += static_cast<double>(coded.n_values());
    size.n_bytes += static_cast<double>(coded.decision.plan->preamble().size());
    for (const EncodedChunk& chunk : coded.chunks) {
      size.n_bytes += static_cast<double>(chunk.payload.size());
    }
  }
  size.sum_of_squares = totals.sum_of_squares;
  return size;
}

Result<Size> find_step(std::vector<Coded>& records, double bits, Scratch& scratch) {
  double low = -30;  // as logarithms
  double high = 10;
  for (unsigned i = 0; i < 12; ++i) {
    const double middle = (low + high) / 2;
    CFCK_TRY_ASSIGN(const Size size, size_at(records, std::exp2(middle), scratch));
    (size.bits() > bits ? low : high) = middle;
  }
  return size_at(records, std::exp2(high), scratch);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double fraction_of(const std::vector<double>& copying, const std::vector<double>& seconds) {
  std::vector<double> fractions;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    fractions.push_back(copying[i] / seconds[i]);
  }
  return median(fractions);
}

// Seconds that each repetition took to copy as many bytes as the tensors have.
struct Copying {
  std::vector<double> memory;
  std::vector<double> cached;
};

nlohmann::json speed_of(const std::vector<double>& seconds, const Copying& copying,
                        double n_values) {
  return {
      {"best_million_per_s", 1e-6 * n_values / *std::min_element(seconds.begin(), seconds.end())},
      {"median_million_per_s", 1e-6 * n_values / median(seconds)},
      {"fraction_of_memcpy", fraction_of(copying.memory, seconds)},
      {"fraction_of_cached_memcpy", fraction_of(copying.cached, seconds)}};
}

double seconds_to_copy(const std::vector<std::byte>& from, std::vector<std::byte>& to) {
  const auto start = std::chrono::steady_clock::now();
  std::memcpy(to.data(), from.data(), from.size());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Request {
  bench::Arguments common;
  double bits = 3;
  SpectralRequest spectral;
};

Result<nlohmann::json> measure(const Request& request) {
  CFCK_TRY_ASSIGN(const bench::Weights weights, bench::read_weights(request.common.path));
  std::vector<Coded> records = records_of(weights, request.spectral, request.common.entropy);
  if (records.empty()) {
    return invalid_argument("no float tensors of two or more dimensions");
  }
  Scratch scratch;
  CFCK_TRY_ASSIGN(const Size size, find_step(records, request.bits, scratch));
  std::vector<std::vector<std::byte>> out;
  for (Coded& coded : records) {
    CFCK_TRY(decode(coded, scratch, out.emplace_back(coded.values.size())));
    if (out.back() != coded.decoded) {
      return corrupt("what was decoded is not what was encoded");
    }
  }
  std::vector<double> planning, encoding, both, decoding;
  Copying copying;
  double n_bytes = 0;
  for (const Coded& coded : records) {
    n_bytes += static_cast<double>(coded.values.size());
  }
  const std::vector<std::byte> from(kCopiedBytes, std::byte{1});
  std::vector<std::byte> to(kCopiedBytes, std::byte{2});
  for (unsigned i = 0; i < request.common.repetitions; ++i) {
    const auto out_of = [&](const Coded& coded) -> MutableBytes {
      return out[static_cast<std::size_t>(&coded - records.data())];
    };
    ErrorTotals totals;
    copying.memory.push_back(seconds_to_copy(from, to) * n_bytes / kCopiedBytes);
    CFCK_TRY_ASSIGN(copying.cached.emplace_back(), seconds_of(records, [&](Coded& coded) {
                      std::memcpy(out_of(coded).data(), coded.values.data(), coded.values.size());
                      return Result<void>();
                    }));
    CFCK_TRY_ASSIGN(planning.emplace_back(),
                    seconds_of(records, [&](Coded& coded) { return plan(coded, scratch); }));
    CFCK_TRY_ASSIGN(encoding.emplace_back(), seconds_of(records, [&](Coded& coded) {
                      return encode(coded, scratch, totals);
                    }));
    both.push_back(planning.back() + encoding.back());
    CFCK_TRY_ASSIGN(decoding.emplace_back(), seconds_of(records, [&](Coded& coded) {
                      return decode(coded, scratch, out_of(coded));
                    }));
  }
  const char* const levels[] = {"baseline", "v3", "v4"};
  return nlohmann::json{{"cpu", levels[static_cast<unsigned>(cpu_level())]},
                        {"entropy", entropy_name(request.common.entropy)},
                        {"tensors", records.size()},
                        {"values", size.n_values},
                        {"bits_per_weight", size.bits()},
                        {"mean_square_error", size.sum_of_squares / size.n_values},
                        {"memcpy", speed_of(copying.memory, copying, size.n_values)},
                        {"cached_memcpy", speed_of(copying.cached, copying, size.n_values)},
                        {"plan", speed_of(planning, copying, size.n_values)},
                        {"chunks", speed_of(encoding, copying, size.n_values)},
                        {"encode", speed_of(both, copying, size.n_values)},
                        {"decode", speed_of(decoding, copying, size.n_values)}};
}

}  // namespace

int main(int argc, char** argv) {
  Request request;
  request.common.repetitions = 15;
  const auto take = [&](std::string_view name, const char* value) {
    char* end = nullptr;
    const double number = std::strtod(value, &end);
    const bool is_number = end != value && *end == '\0';
    if (name == "--bits" && is_number && number > 0) {
      request.bits = number;
    } else if (name == "--lambda" && is_number) {
      request.spectral.lambda = number;
    } else if (name == "--states" && (number == 1 || number == 4 || number == 8 || number == 64)) {
      request.spectral.n_states = static_cast<unsigned>(number);
    } else {
      return bench::take_option(name, value, request.common);
    }
    return true;
  };
  if (!bench::read_arguments(argc, argv, request.common, take)) {
    std::fprintf(stderr,
                 "usage: spectral_bench [--bits B] [--states N] [--lambda L] [--entropy E] "
                 "[--repetitions N] FILE\n");
    return 2;
  }
  const auto found = measure(request);
  if (!found) {
    std::fprintf(stderr, "spectral_bench: %s\n", found.error().message.c_str());
    return 1;
  }
  std::printf("%s\n", found->dump().c_str());
  return 0;
}
