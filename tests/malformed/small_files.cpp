#include "tests/malformed/small_files.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"
#include "tests/fuzz/fixed_base.hpp"

namespace cfck::test {
namespace {

// Values that codecs treat differently, for any dtype.
enum class Pattern { kNarrow, kZeros, kSparse, kConstant, kCounter, kNoise };

Bytes values(Pattern pattern, DType dtype, std::uint64_t n, std::uint64_t seed) {
  Bytes bytes(*n_bytes(dtype, {n}));
  const std::size_t width = std::max(1u, bits_per_element(dtype) / 8);
  Random random(seed);
  for (std::size_t i = 0; i < bytes.size(); i += width) {
    std::uint64_t value = random.next();
    switch (pattern) {
      case Pattern::kNarrow:
        // The highest byte takes few values: exponents of weights.
        value = (value & ~(std::uint64_t{0x7f} << (8 * width - 8))) | std::uint64_t{0x3c}
                                                                          << (8 * width - 8);
        break;
      case Pattern::kZeros:
        value = 0;
        break;
      case Pattern::kSparse:
        value = value >> 61 == 0 ? value : 0;
        break;
      case Pattern::kConstant:
        value = 0x3f40003f40003f40;
        break;
      case Pattern::kCounter:
        value = i / width;
        break;
      case Pattern::kNoise:
        break;
    }
    std::memcpy(bytes.data() + i, &value, std::min(width, bytes.size() - i));
  }
  return bytes;
}

Bytes one_tensor(CodecChoice codec, DType dtype, Pattern pattern, const Shape& shape,
                 std::uint32_t chunk_elems = 0) {
  EncodeOptions options;
  options.codec = codec;
  options.chunk_elems = chunk_elems;
  const Bytes bytes = values(pattern, dtype, *n_elems(shape), 17);
  return write_file(
      [&](Writer& writer) {
        expect_ok(writer.add("t", TensorView{dtype, shape, bytes}));
      },
      options);
}

void add_dtypes(std::vector<SmallFile>& files) {
  for (const DType dtype : {DType::kBool, DType::kF4, DType::kF6E2M3, DType::kU8, DType::kF8E5M2,
                            DType::kF8E4M3, DType::kF8E8M0, DType::kI16, DType::kF16, DType::kBF16,
                            DType::kI32, DType::kF32, DType::kC64, DType::kF64, DType::kI64}) {
    files.push_back({"packed_" + std::string(dtype_name(dtype)),
                     one_tensor(CodecChoice::kLossless, dtype, Pattern::kNarrow, {8, 8})});
  }
  for (const DType dtype :
       {DType::kF4, DType::kU8, DType::kF8E4M3, DType::kBF16, DType::kF32, DType::kI64}) {
    files.push_back({"chunked_" + std::string(dtype_name(dtype)),
                     one_tensor(CodecChoice::kLossless, dtype, Pattern::kNarrow, {10, 8}, 32)});
  }
}

Bytes lossy_tensor(const TensorOptions& tensor_options, DType dtype, const Shape& shape,
                   std::uint32_t chunk_elems = 0) {
  EncodeOptions options;
  options.rules = {{"*", tensor_options, /*force=*/true}};
  options.chunk_elems = chunk_elems;
  const Bytes bytes = values(Pattern::kNarrow, dtype, *n_elems(shape), 18);
  return write_file(
      [&](Writer& writer) {
        expect_ok(writer.add("t", TensorView{dtype, shape, bytes}));
      },
      options);
}

void add_lossy(std::vector<SmallFile>& files) {
  const auto direct = CodecChoice::kDirect;
  const TensorOptions abs{.codec = direct, .max_abs_error = 1e-3};
  const TensorOptions sigma{.codec = direct, .max_sigma_error = 1e-2, .per_row = true};
  const TensorOptions whole{.codec = direct, .max_sigma_error = 1e-3};
  const TensorOptions tiny{.codec = direct, .max_rel_error = 1e-7};
  files.push_back({"direct_packed", lossy_tensor(abs, DType::kF32, {8, 20})});
  files.push_back({"direct_chunked", lossy_tensor(abs, DType::kF32, {10, 16}, 64)});
  files.push_back({"direct_kernels", lossy_tensor(whole, DType::kF64, {6, 4, 3, 3}, 108)});
  files.push_back({"direct_rows", lossy_tensor(sigma, DType::kBF16, {10, 16}, 64)});
  files.push_back({"direct_exact", lossy_tensor(tiny, DType::kF16, {12, 12})});
}

void add_spectral(std::vector<SmallFile>& files) {
  const TensorOptions eight{.nmse = 0.01};
  const TensorOptions sixty_four{.nmse = 0.01, .trellis_states = 64};
  const TensorOptions four{.psnr = 30, .trellis_states = 4};
  const TensorOptions one{.codec = CodecChoice::kSpectral, .max_abs_error = 1e-2};
  const TensorOptions bits{.bits_per_weight = 4};
  files.push_back({"spectral_packed", lossy_tensor(eight, DType::kF32, {8, 40})});
  files.push_back({"spectral_64_states", lossy_tensor(sixty_four, DType::kF16, {8, 40})});
  files.push_back({"spectral_chunked", lossy_tensor(four, DType::kF32, {20, 16}, 64)});
  files.push_back({"spectral_kernels", lossy_tensor(bits, DType::kF64, {12, 8, 3, 3}, 216)});
  files.push_back({"spectral_exact", lossy_tensor(one, DType::kBF16, {20, 16}, 64)});
}

void add_patterns(std::vector<SmallFile>& files) {
  using P = Pattern;
  const auto lossless = CodecChoice::kLossless;
  const auto raw = CodecChoice::kRaw;
  files.push_back({"zeros", one_tensor(lossless, DType::kF32, P::kZeros, {300}, 128)});
  files.push_back({"sparse_f32", one_tensor(lossless, DType::kF32, P::kSparse, {200})});
  files.push_back({"sparse_bf16", one_tensor(lossless, DType::kBF16, P::kSparse, {16, 20}, 160)});
  files.push_back({"constant", one_tensor(lossless, DType::kF32, P::kConstant, {200}, 100)});
  files.push_back({"counter", one_tensor(lossless, DType::kI32, P::kCounter, {200}, 100)});
  files.push_back({"counter_i64", one_tensor(lossless, DType::kI64, P::kCounter, {150})});
  files.push_back({"noise", one_tensor(lossless, DType::kF16, P::kNoise, {200})});
  files.push_back({"group_and_more", one_tensor(lossless, DType::kF32, P::kNarrow, {260})});
  files.push_back({"auto", one_tensor(CodecChoice::kAuto, DType::kF32, P::kNarrow, {256})});
  files.push_back({"raw_packed", one_tensor(raw, DType::kF32, P::kNoise, {5, 7})});
  files.push_back({"raw_chunked", one_tensor(raw, DType::kF32, P::kNoise, {100}, 24)});
  files.push_back({"raw_bits", one_tensor(raw, DType::kF6E3M2, P::kNoise, {64}, 24)});
  files.push_back({"scalar", one_tensor(lossless, DType::kF64, P::kNoise, {})});
  files.push_back({"no_elements", one_tensor(lossless, DType::kF32, P::kNoise, {3, 0})});
}

Bytes updated(const Bytes& bytes) {
  const TemporaryFolder folder;
  put_bytes(folder.path("f"), bytes);
  const Bytes fresh = weights(50, 40);
  Update changes;
  changes.tensors.push_back({"b", DType::kF32, {40}, {1}, fresh.data()});
  changes.tensors.push_back({"new", DType::kF32, {20}, {1}, fresh.data() + 40});
  changes.remove = {"c"};
  changes.metadata["k"] = "new";
  take(update(folder.path("f"), changes));
  return bytes_of(folder.path("f"));
}

void add_kinds(std::vector<SmallFile>& files) {
  const Bytes a = weights(1, 60);
  const Bytes b = weights(2, 60);
  const Bytes twin = a;
  EncodeOptions chunked;
  chunked.chunk_elems = 32;
  const auto f32 = [](const Bytes& bytes) {
    return TensorView{DType::kF32, {bytes.size() / 4}, bytes};
  };
  for (const auto& [kind, options] :
       {std::pair<std::string, EncodeOptions>("packed", {}), {"chunked", chunked}}) {
    files.push_back(
        {"alias_" + kind,
         write_file(
             [&](Writer& writer) {
               expect_ok(writer.add("a", f32(a)));
               expect_ok(writer.add_alias("v", "a", 3, {5, 4}, std::vector<std::uint64_t>{1, 10}));
               expect_ok(writer.add_alias("w", "a", 30, {30}, std::vector<std::uint64_t>{1}));
             },
             options)});
    files.push_back({"duplicate_" + kind, write_file(
                                              [&](Writer& writer) {
                                                expect_ok(writer.add("a", f32(a)));
                                                expect_ok(writer.add("b", f32(b)));
                                                expect_ok(writer.add("twin", f32(twin)));
                                              },
                                              options)});
    files.push_back({"hidden_" + kind, write_file(
                                           [&](Writer& writer) {
                                             const StridedTensor views[] = {
                                                 {"left", DType::kF32, {40}, {1}, a.data()},
                                                 {"right", DType::kF32, {40}, {1}, a.data() + 80}};
                                             expect_ok(writer.add_tensors(views));
                                           },
                                           options)});
  }
  files.push_back({"metadata", write_file([&](Writer& writer) {
                     expect_ok(writer.set_metadata("", "empty"));
                     expect_ok(writer.set_metadata("k", "v"));
                     expect_ok(writer.set_metadata("long", std::string(200, 'x')));
                     expect_ok(writer.add("a", f32(a)));
                   })});
  files.push_back({"attachments", write_file([&](Writer& writer) {
                     expect_ok(writer.attach("one", ByteView(a).first(100)));
                     expect_ok(writer.attach("none", {}));
                     expect_ok(writer.attach("zeros", constant(0, 5000)));
                   })});
  files.push_back({"nothing", write_file([](Writer&) {})});
  const Bytes before = write_file([&](Writer& writer) {
    expect_ok(writer.add("a", f32(a)));
    expect_ok(writer.add("b", f32(b)));
    expect_ok(writer.add("c", TensorView{DType::kU8, {30}, ByteView(b).first(30)}));
    expect_ok(writer.set_metadata("k", "old"));
  });
  files.push_back({"generation_1", updated(before)});
}

// The tensors of the fixed base after a step: one of `every` bytes has its lowest bit changed.
std::vector<FixedTensor> stepped(std::uint64_t every) {
  std::vector<FixedTensor> tensors = fixed_tensors();
  Random random(every);
  for (FixedTensor& tensor : tensors) {
    for (std::byte& value : tensor.values) {
      value ^= every != 0 && random.below(every) == 0 ? std::byte{1} : std::byte{0};
    }
  }
  return tensors;
}

void add_all(Writer& writer, std::span<const FixedTensor> tensors) {
  for (const FixedTensor& tensor : tensors) {
    expect_ok(writer.add(tensor.name, TensorView{tensor.dtype, tensor.shape, tensor.values}));
  }
}

void add_based(std::vector<SmallFile>& files) {
  EncodeOptions packed;
  packed.base = fixed_base();
  EncodeOptions chunked = packed;
  chunked.chunk_elems = 64;
  const std::vector<FixedTensor> same = fixed_tensors();
  const std::vector<FixedTensor> few = stepped(30);
  const std::vector<FixedTensor> many = stepped(2);
  for (const auto& [kind, options] :
       {std::pair<std::string, EncodeOptions>("packed", packed), {"chunked", chunked}}) {
    for (const auto& [changes, tensors] :
         {std::pair("same", &same), {"few", &few}, {"many", &many}}) {
      files.push_back({"based_" + std::string(changes) + "_" + kind,
                       write_file([&](Writer& writer) { add_all(writer, *tensors); }, options)});
    }
    files.push_back(
        {"based_shared_" + kind,
         write_file(
             [&](Writer& writer) {
               const FixedTensor& bf16 = few[0];
               add_all(writer, {&bf16, 1});
               expect_ok(writer.add("twin", TensorView{bf16.dtype, bf16.shape, bf16.values}));
               const auto alias = [&](const char* name, std::uint64_t first, const Shape& shape,
                                      std::vector<std::uint64_t> strides) {
                 expect_ok(writer.add_alias(name, "bf16", first, shape, strides));
               };
               alias("whole", 0, {192}, {1});
               alias("part", 32, {4, 16}, {16, 1});
               alias("turned", 0, {16, 12}, {1, 16});
             },
             options)});
  }
}

}  // namespace

const std::vector<SmallFile>& small_files() {
  static const std::vector<SmallFile> files = [] {
    std::vector<SmallFile> made;
    add_dtypes(made);
    add_patterns(made);
    add_lossy(made);
    add_spectral(made);
    add_kinds(made);
    add_based(made);
    return made;
  }();
  return files;
}

const SmallFile& small_file(const std::string& name) {
  const auto found = std::ranges::find(small_files(), name, &SmallFile::name);
  if (found == small_files().end()) {
    throw std::runtime_error("no small file " + name);
  }
  return *found;
}

Result<Contents> read_contents(const ByteSource& source, DecodeOptions options) {
  options.threads = 1;
  if (options.base == nullptr) {
    options.base = fixed_base();
  }
  CFCK_TRY_ASSIGN(const Reader reader, Reader::open(source, options));
  Contents contents;
  contents.metadata = reader.metadata();
  for (const Record& record : reader.records()) {
    // Far above what small files hold, far below what hurts.
    if (record.decoded_bytes > 1000000) {
      return Error{ErrorCode::kLimitExceeded, "too large for a small file", {}, {}};
    }
    Bytes bytes(record.decoded_bytes);
    CFCK_TRY(reader.read(record, bytes));
    if (!record.hidden) {
      contents.tensors[record.name] = std::move(bytes);
      contents.shapes[record.name] = record.shape;
    }
  }
  for (const Attachment& attachment : reader.attachments()) {
    CFCK_TRY_ASSIGN(contents.attachments[attachment.name], reader.attachment(attachment.name));
  }
  return contents;
}

Result<Contents> read_contents(const Bytes& bytes, DecodeOptions options) {
  const MemorySource source(bytes);
  return read_contents(source, options);
}

FileParts parts_of(const Bytes& bytes) {
  const OpenFile file(bytes);
  FileParts parts;
  parts.index = ReaderAccess::index(file.reader());
  parts.metadata = ReaderAccess::metadata(file.reader());
  parts.tail = ReaderAccess::tail(file.reader());
  parts.body.assign(bytes.begin(),
                    bytes.begin() + static_cast<std::ptrdiff_t>(parts.tail.metadata.offset_bytes));
  return parts;
}

Bytes put_together(FileParts parts) {
  Bytes bytes = parts.body;
  const auto hash_of = [&](std::uint64_t offset_bytes, std::uint64_t n_bytes, std::uint64_t& hash) {
    if (offset_bytes <= bytes.size() && n_bytes <= bytes.size() - offset_bytes) {
      hash = tiled_hash64(ByteView(bytes).subspan(offset_bytes, n_bytes));
    }
  };
  for (const format::StoredRecord& stored : parts.index.records) {
    std::uint64_t offset_bytes = stored.offset_bytes;
    const std::uint64_t n_entries = stored.record.kind == RecordKind::kChunked
                                        ? stored.record.n_chunks + (stored.has_preamble ? 1 : 0)
                                        : 0;
    for (std::uint64_t i = 0; i < n_entries; ++i) {
      format::ChunkEntry& entry = parts.index.chunks[stored.first_chunk + i];
      hash_of(offset_bytes, entry.n_bytes, entry.hash);
      offset_bytes += entry.n_bytes;
    }
  }
  for (format::PackEntry& pack : parts.index.packs) {
    hash_of(pack.offset_bytes, pack.n_bytes, pack.hash);
  }
  for (format::StoredAttachment& attachment : parts.metadata.attachments) {
    hash_of(attachment.extent.offset_bytes, attachment.extent.n_bytes, attachment.hash);
  }
  const auto append = [&](ByteView frame, format::Extent& extent, Digest& hash) {
    extent = {bytes.size(), frame.size()};
    hash = hash128(frame);
    bytes.insert(bytes.end(), frame.begin(), frame.end());
  };
  append(take(format::encode_metadata(parts.metadata)), parts.tail.metadata,
         parts.tail.metadata_hash);
  append(take(format::encode_index(parts.index)), parts.tail.index, parts.tail.index_hash);
  parts.tail.required_features &= ~format::kCompressedIndex;
  parts.tail.file_bytes = bytes.size() + format::kTailBytes;
  const auto tail = format::encode_tail(parts.tail);
  bytes.insert(bytes.end(), tail.begin(), tail.end());
  return bytes;
}

Bytes changed(const Bytes& bytes, const std::function<void(FileParts&)>& change) {
  FileParts parts = parts_of(bytes);
  change(parts);
  return put_together(std::move(parts));
}

}  // namespace cfck::test
