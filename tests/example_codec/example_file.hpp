// A file with records of the example codecs, and one that every version of the library reads.
#pragma once

#include <list>

#include "tests/support/sample_tensors.hpp"

namespace cfck::test {

inline constexpr CodecId kRunsId = static_cast<CodecId>(200);
inline constexpr CodecId kRoundedId = static_cast<CodecId>(201);

struct ExampleTensors {
  Bytes runs = joined({constant(1, 3000), constant(7, 500), noise(1, 100), constant(0, 4000)});
  Bytes weights = test::weights(2, 3000);
  Bytes many_runs = joined(std::vector<Bytes>(400, joined({constant(3, 5000), noise(3, 100)})));
};

// Programs without the example codecs cannot make it.
inline Bytes example_file() {
  const ExampleTensors tensors;
  std::list<MemorySource> sources;  // they stay until the file is finished
  return write_file([&](Writer& writer) {
    const auto add = [&](const char* name, CodecChoice codec, DType dtype, const Bytes& bytes) {
      TensorOptions options;
      options.codec = codec;
      if (codec == codec_choice(kRoundedId)) options.nmse = 1e-4;
      const std::uint64_t n = bytes.size() * 8 / bits_per_element(dtype);
      const ByteSource* const source = &sources.emplace_back(bytes);
      expect_ok(writer.add(name, TensorSource{dtype, {n}, source}, options));
    };
    add("runs", codec_choice(kRunsId), DType::kU8, tensors.runs);
    add("weights", CodecChoice::kAuto, DType::kF32, tensors.weights);
    add("many runs", codec_choice(kRunsId), DType::kU16, tensors.many_runs);
    add("rounded", codec_choice(kRoundedId), DType::kF32, tensors.weights);
  });
}

}  // namespace cfck::test
