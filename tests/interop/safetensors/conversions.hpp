// safetensors files in memory to .cfck files and back. Errors fail the test.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "cfck/reader.hpp"
#include "cfck/safetensors.hpp"
#include "cfck/writer.hpp"

namespace cfck::test {

inline std::vector<std::byte> to_cfck(const std::vector<std::byte>& file,
                                      const EncodeOptions& options = {}) {
  const MemorySource source(file);
  const auto header = read_safetensors_header(source);
  EXPECT_TRUE(header) << header.error().to_string();
  MemorySink sink;
  auto writer = Writer::create(sink, options);
  EXPECT_TRUE(writer);
  const auto added = add_safetensors(*writer, source, *header);
  EXPECT_TRUE(added) << added.error().to_string();
  const auto finished = writer->finish();
  EXPECT_TRUE(finished) << finished.error().to_string();
  return sink.take();
}

inline std::vector<std::byte> to_safetensors(const std::vector<std::byte>& file,
                                             unsigned threads = 2) {
  const MemorySource source(file);
  const auto reader = Reader::open(source);
  EXPECT_TRUE(reader) << reader.error().to_string();
  MemorySink sink;
  const auto written = write_safetensors(*reader, sink, {}, threads);
  EXPECT_TRUE(written) << written.error().to_string();
  return sink.take();
}

}  // namespace cfck::test
