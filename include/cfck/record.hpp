// The description of one tensor in a file. Filled from the index alone; nothing here needs the
// tensor's data.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cfck/export.hpp"
#include "cfck/options.hpp"
#include "cfck/tensor.hpp"

namespace cfck {

class ByteSource;  // cfck/io.hpp

// XXH3-128, low 64 bits first, each half little-endian.
using Digest = std::array<std::uint8_t, 16>;

// The values are wire values (spec/format.md, section "Records").
enum class RecordKind : std::uint8_t {
  kChunked = 0,    // owns a run of chunks
  kPacked = 1,     // one small chunk inside a pack
  kAlias = 2,      // shares elements with its base; loaded tied
  kDuplicate = 3,  // equal bytes by chance: shares stored bytes with its base, never memory
};

// For a record of codec spectral: the target, and the reference of its errors.
struct RecordQuality {
  Target target;   // as the user gave it; kNone: only a maximum error was asked for
  double rms = 0;  // root mean square of the finite values
  double min = 0;  // minimum of the finite values
  double max = 0;  // maximum of the finite values

  bool operator==(const RecordQuality&) const = default;
};

// The requested bound and the errors, measured by decoding.
struct RecordError {
  ErrorBound bound;          // as the user gave it; kNone: no maximum is promised
  double max_abs_error = 0;  // the largest |x - y| of a finite value
  double rmse = 0;           // root mean square of x - y over the finite values
  std::optional<RecordQuality> quality = std::nullopt;

  bool operator==(const RecordError&) const = default;
};

// Records may be copied; a copy stands for the same tensor of the same file.
struct Record {
  std::string name;     // empty for a hidden record
  bool hidden = false;  // the storage behind aliases that has no name of its own
  RecordKind kind = RecordKind::kChunked;
  DType dtype = DType::kU8;  // may be a value of a newer version: see bits_per_element
  CodecId codec = CodecId::kRaw;
  EntropyId entropy = EntropyId::kNone;
  ScanId scan = ScanId::kStorageOrder;
  Shape shape;

  // kAlias and kDuplicate: index of the base in Reader::records(); the base is
  // never an alias or a duplicate itself.
  std::uint32_t base = 0;
  // kAlias: where the view starts in the base and its strides, in elements.
  std::uint64_t element_offset = 0;
  std::vector<std::uint64_t> strides;

  std::uint64_t n_elems = 0;
  std::uint64_t decoded_bytes = 0;  // of the contiguous tensor; 0 if the dtype is unknown
  // Bytes of the file that only this record needs: preamble, chunks with their
  // frame headers, or its payload in a pack. 0 for aliases and duplicates.
  std::uint64_t stored_bytes = 0;
  // Values per chunk; n_elems for a packed record.
  std::uint64_t chunk_elems = 0;
  std::uint64_t n_chunks = 0;
  Digest digest = {};  // of the decoded bytes (spec/format.md, section "Digests")
  // For a record that is stored against a base: the digest of the tensor of its name there. An
  // alias or a duplicate has none.
  std::optional<Digest> base_digest = std::nullopt;
  // Set for a lossy record; nullopt means that every bit is preserved. An alias or a duplicate
  // repeats that of its base.
  std::optional<RecordError> error;
  std::uint32_t index = 0;  // of this record in Reader::records()

  // Returns 8 * stored_bytes / n_elems; 0 for a record without elements.
  CFCK_API double bits_per_weight() const;

  bool operator==(const Record&) const = default;
};

// User metadata, as in safetensors.
using Metadata = std::map<std::string, std::string>;

struct Attachment {
  std::string name;
  std::uint64_t decoded_bytes = 0;
  std::uint64_t stored_bytes = 0;
};

// A tensor that may be a view, as a framework describes it. `data` is the address
// of its first element; strides are in elements and non-negative. Nothing is
// owned.
struct StridedTensor {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape;
  std::vector<std::uint64_t> strides;
  const std::byte* data = nullptr;
  // Replaces the options of the writer, as with Writer::add(); nullopt: those apply.
  std::optional<TensorOptions> options = std::nullopt;
  Device device = {};
  // Where the writer cannot read `data`: the bytes of the tensor, which is contiguous. `data` then
  // only tells which tensors share memory, and addresses of different devices must differ; one of
  // those that share it must have all of it. Where `device` is the host, none is shared.
  const ByteSource* source = nullptr;
};

}  // namespace cfck
