// The table that drives the suites of this folder. A row is a codec of the registry, asked for in
// one way; the suites run every row with every dtype and entropy stage that it takes, at every
// level of the CPU. A new codec is a new row.
#pragma once

#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "codec/lossy.hpp"
#include "tests/codec/test_values.hpp"

namespace cfck::codec {

struct CodecRow {
  const char* name;
  CodecId codec;
  std::span<const DType> dtypes;
  // Fills in what a record of a lossy codec asks for; nullptr: the codec is lossless.
  void (*ask)(LossyRecord& record);
  // No finite value may be off by more; none: nothing is promised of single values.
  std::optional<double> max_abs_error;

  bool is_lossless() const { return ask == nullptr; }
};

std::span<const CodecRow> codec_rows();

// One row with one dtype and entropy stage.
struct CodecCase {
  const CodecRow* row = nullptr;
  DType dtype = DType::kF32;
  EntropyId entropy = EntropyId::kZstd;
};
std::ostream& operator<<(std::ostream& out, const CodecCase& one);
// "direct_abs_BF16_rans", for names of tests.
std::string name_of(const CodecCase& one);
std::vector<CodecCase> all_codec_cases();

// A tensor as a codec stores it.
struct CodedTensor {
  CodecId codec = CodecId::kLossless;  // lossless where a lossy codec has no plan
  EntropyId entropy = EntropyId::kZstd;
  DType dtype = DType::kF32;
  Shape shape;
  std::uint64_t chunk_elems = 0;
  std::vector<std::byte> preamble;
  std::vector<std::byte> base;  // of codec delta: much like the values
  std::vector<EncodedChunk> chunks;
  std::vector<std::byte> promised;  // what the encoder says that decoding gives

  std::uint64_t n_elems() const;
  ChunkInfo info_of(std::size_t chunk) const;
  // Where the values of a chunk begin in those of the tensor, and how many bytes they have.
  std::size_t offset_bytes(std::size_t chunk) const;
  std::size_t n_bytes(std::size_t chunk) const;
  // Payloads and preamble; for comparisons.
  bool operator==(const CodedTensor& other) const;
};

// Encodes a tensor in chunks of whole rows, two where it has an even number of them. Errors fail
// the test.
CodedTensor code_tensor(const CodecCase& one, const Shape& shape, ByteView values,
                        Scratch& scratch);
// Decodes chunk after chunk. Errors fail the test.
std::vector<std::byte> decode_tensor(const CodedTensor& coded, Scratch& scratch);
// Decodes into memory of the caller's, which has the bytes of the tensor.
void decode_tensor(const CodedTensor& coded, Scratch& scratch, MutableBytes values);

// The patterns of values that a row is tried with: all for lossless codecs, those that differ for
// lossy ones.
std::span<const Pattern> row_patterns(const CodecRow& row);

// Shapes with chunks that end inside a group, at its end and behind it; matrices and kernels.
std::span<const Shape> row_shapes();

}  // namespace cfck::codec
