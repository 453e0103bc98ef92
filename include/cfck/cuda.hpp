// Reads tensors of a .cfck file into the memory of an NVIDIA device: compressed bytes are copied
// there and decoded there, to the same bits as on the CPU; and writes tensors that are there, which
// the device encodes, to the same bytes as those of the host (docs/devices.md). No header of CUDA
// is needed, and a machine without a device can build and run a program that uses this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cfck/device.hpp"
#include "cfck/export.hpp"
#include "cfck/io.hpp"
#include "cfck/message.hpp"
#include "cfck/reader.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "cfck/writer.hpp"

namespace cfck::cuda {

// Checks whether device number `device` can decode, and makes it ready: the first call for a device
// takes the time in which the driver starts. Errors: kUnsupported with the reason: no driver, one
// older than the series 580, no such device, one of a compute capability below 7.5, a build of cfck
// without device code, a child forked from a process that uses CUDA. Thread-safe.
CFCK_API Result<void> availability(int device);

// A file in the memory of a device. A Decoder for that device uses its compressed bytes where they
// are; every other reader copies to the host what it asks for. Thread-safe.
//
//   auto source = cuda::DeviceSource::open(0, data, n_bytes);
//   auto reader = Reader::open(**source);
class CFCK_API DeviceSource final : public ByteSource {
 public:
  // Refers to memory of the device, which must outlive the source and does not change: what writes
  // it must have been waited for. Errors: those of availability(); kInvalidArgument if `data` is
  // not memory of the device.
  static Result<std::unique_ptr<DeviceSource>> open(int device, const void* data,
                                                    std::uint64_t n_bytes);

  std::uint64_t size() const override { return n_bytes_; }
  // Errors: also those of the driver, kIo and kOutOfMemory.
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override;
  const std::byte* on_device(Device device) const override;

 private:
  DeviceSource(int device, const std::byte* data, std::uint64_t n_bytes)
      : device_(device), data_(data), n_bytes_(n_bytes) {}

  const int device_;
  const std::byte* const data_;
  const std::uint64_t n_bytes_;
};

// A stream of the caller, which it keeps: a cudaStream_t or CUstream; nullptr is the default
// stream.
struct Stream {
  int device = 0;
  void* handle = nullptr;
};

// A tensor to read, or a box of it.
struct Read {
  const Record* record = nullptr;  // of the reader, or a copy of one
  // Memory of the device for exactly the values, contiguous, aligned to an element. Only the device
  // touches it.
  MutableBytes out;
  // The box starts[i] <= index i < stops[i], one entry for each dimension; both empty: all of it.
  std::vector<std::uint64_t> starts = {};
  std::vector<std::uint64_t> stops = {};
};

// Counts what was decoded, in bytes of values. Aliases and duplicates of what was decoded anyway
// are copied, and not counted.
struct Summary {
  std::uint64_t device_bytes = 0;  // decoded by the device
  // Decoded by the host and copied, since the device has no kernel for them: the entropy stage
  // zstd, byte planes, codec spectral; and masks.
  std::uint64_t host_bytes = 0;
};

// How much memory a load may take, and who is told of it.
struct LoadOptions {
  // Size of one of the four parts of the staging memory, and of the device's copies. It is larger
  // where a chunk or a pack of small records needs more.
  std::size_t part_bytes = std::size_t{32} << 20;
  // Memory of the device while chunks are decoded. Chunks that do not fit in it are decoded by the
  // host.
  std::size_t scratch_bytes = std::size_t{48} << 20;
  // Called in enqueue() and finish().
  ReadProgress progress = {};
};

// One load of any number of tensors. The caller owns all memory. Not thread-safe; several may be
// under way at the same time, also on one device.
//
//   CFCK_TRY_ASSIGN(auto decoder, cuda::Decoder::plan(reader, reads, 0));
//   // ... decoder.workspace_bytes() of the device, decoder.staging_bytes() of the host ...
//   CFCK_TRY(decoder.enqueue(workspace, staging, {0, stream}));
//   CFCK_TRY_ASSIGN(const cuda::Summary summary, decoder.finish());
class CFCK_API Decoder {
 public:
  // `reader` must outlive the decoder, which reads nothing of it but preambles yet; aliases and
  // duplicates of records that the same call reads are copied on the device. Errors: those of
  // availability(), those of Reader::read(), kInvalidArgument for `out` of another size or a wrong
  // alignment.
  static Result<Decoder> plan(const Reader& reader, std::span<const Read> reads, int device,
                              LoadOptions options = {});
  // Waits for what is under way.
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // Memory of the device, at an address that is a multiple of 256: at most
  // LoadOptions::scratch_bytes and, for the compressed bytes under way, as much as staging_bytes().
  // The first load of a process on a device takes 256 KiB there for tables, and keeps them.
  std::size_t workspace_bytes() const;
  // Memory of the host, at an address that is a multiple of 16; copies are fastest from pinned
  // memory. At most 128 MiB for chunks of ordinary size; for a DeviceSource a kilobyte for each
  // chunk, and a few megabytes where the host decodes some.
  std::size_t staging_bytes() const;
  // A quarter of that for most loads. With as little as this a load has fewer parts, and reads,
  // copies and decodes one after another where it has one.
  std::size_t least_staging_bytes() const;

  // Reads the file, copies, and decodes on `stream`, after what is there already; copies go through
  // a stream of their own. Returns when all is read and asked for: the last of it may still be
  // under way. Waits only for parts of `staging` that are to be used again, and for the headers of
  // chunks that a DeviceSource has. Requires: `workspace` has workspace_bytes(). Errors: those of
  // Reader::read(); kInvalidArgument for memory or a stream of another device, for staging memory
  // of less than least_staging_bytes(), and for a second call; kIo and kOutOfMemory of the driver.
  // After an error nothing is under way, and the contents of all outputs are unspecified.
  Result<void> enqueue(void* workspace, MutableBytes staging, Stream stream);
  // Waits until everything is decoded. Workspace, staging memory and outputs must stay until then.
  // Errors: as enqueue(); kInvalidArgument before it, and after an error. A chunk that the device
  // refuses is decoded again by the host, whose error is returned; should that succeed, kInternal.
  // Where several fail, the error is that of the first.
  Result<Summary> finish();

 private:
  struct CFCK_LOCAL Impl;
  explicit Decoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// How much memory encoding may take.
struct EncodeLimits {
  // Bytes of the values of one pass, for which each of two that are under way at the same time has
  // memory. A chunk that does not fit is encoded by the host.
  std::size_t pass_bytes = std::size_t{32} << 20;
  // Memory of the device for blocks that encode, half of it for each pass: two or three times the
  // values of the chunks that are encoded at the same time.
  std::size_t scratch_bytes = std::size_t{160} << 20;
};

// Counts the values of tensors of the device, in bytes. Duplicates of others are not counted.
struct EncodeSummary {
  std::uint64_t device_bytes = 0;  // encoded by the device
  // Copied to the host and encoded there: what libzstd has a part in (integers, masks of zeros,
  // values that repeat, small tensors, the level archive), tensors with a target or a quality,
  // rows, and values that do not shrink.
  std::uint64_t host_bytes = 0;
};

// A device that encodes for one writer. The caller owns all memory. Not thread-safe; several may be
// in use at the same time, also on one device.
//
//   CFCK_TRY_ASSIGN(auto device, cuda::WriterDevice::open(0));
//   // ... device.workspace_bytes() of the device, device.staging_bytes() of the host ...
//   CFCK_TRY_ASSIGN(auto writer, Writer::create(sink));
//   CFCK_TRY(device.encode_for(writer, workspace, staging, {0, stream}));
//   CFCK_TRY_ASSIGN(auto source, cuda::DeviceSource::open(0, data, n_bytes));
//   CFCK_TRY(writer.add("weight", TensorSource{DType::kBF16, shape, source.get()}));
//   CFCK_TRY_ASSIGN(auto summary, writer.finish());
class CFCK_API WriterDevice {
 public:
  // Errors: those of availability().
  static Result<WriterDevice> open(int device, EncodeLimits limits = {});
  // Waits for what is under way. The writer must have been destroyed, or have finished.
  ~WriterDevice();
  WriterDevice(WriterDevice&&) noexcept;
  WriterDevice& operator=(WriterDevice&&) noexcept;

  // Memory of the device, at an address that is a multiple of 256.
  std::size_t workspace_bytes() const;
  // Memory of the host, at an address that is a multiple of 256; copies are fastest to pinned
  // memory.
  std::size_t staging_bytes() const;

  // Has chunks of tensors whose source is a DeviceSource of this device encoded on `stream`, after
  // what is there already: values may be what earlier work of the stream writes. They must not
  // change before the writer has finished. Memory and the object itself must stay until then.
  // Tensors may be encoded later than they are added, so that the device gets many at once.
  // Requires: nothing was added to the writer. Errors: kInvalidArgument for memory or a stream of
  // another device, memory that is too small, and for a second call; kIo and kOutOfMemory of the
  // driver. Functions of the writer have these too.
  Result<void> encode_for(Writer& writer, void* workspace, MutableBytes staging, Stream stream);
  // Has the device hash these tensors and sample them, all at once. Each is to be added to the
  // writer afterwards; one that was not looked at is when it is added, and each such look is a wait
  // for the device. Errors: as encode_for(); kInvalidArgument before it.
  Result<void> look_at(std::span<const TensorSource> tensors);

  EncodeSummary summary() const;

 private:
  struct CFCK_LOCAL Impl;
  explicit WriterDevice(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A tensor that becomes a message.
struct MessageTensor {
  DType dtype = DType::kU8;
  Shape shape;
};

// Encodes tensors of a device as messages in its memory: those that encode_message() gives for
// equal tensors of the host, byte for byte. The caller owns all memory. Not thread-safe; several
// may be in use at the same time, also on one device.
//
//   CFCK_TRY_ASSIGN(auto encoder, cuda::Encoder::plan(options, DType::kBF16, shape, 0));
//   // ... max_message_bytes() of the device for the message, encoder.workspace_bytes() of it,
//   // encoder.staging_bytes() of the host ...
//   CFCK_TRY(encoder.enqueue(values, out, workspace, staging, {0, stream}));
//   CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, encoder.finish());
class CFCK_API Encoder {
 public:
  // Memory for as many blocks as a device of 132 multiprocessors holds, with chunks of BF16.
  static constexpr std::size_t kScratchBytes = std::size_t{240} << 20;

  // One message, or several that are made at once: many small ones as fast as a large one. Errors:
  // those of availability(), and those of max_message_bytes().
  static Result<Encoder> plan(const MessageOptions& options, DType dtype, const Shape& shape,
                              int device, EncodeLimits limits = {.scratch_bytes = kScratchBytes});
  static Result<Encoder> plan(const MessageOptions& options, std::span<const MessageTensor> tensors,
                              int device, EncodeLimits limits = {.scratch_bytes = kScratchBytes});
  // Waits for what is under way.
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) noexcept;

  // Whether the device is tried at all: otherwise the host encodes, and finish() takes as long as
  // that.
  bool tries_device() const;
  // Memory of the device for all messages, each of which has max_message_bytes() of it, from a
  // multiple of 256 on. Of a single message it is at least that much.
  std::uint64_t out_bytes() const;
  // Requires: i is less than the number of messages.
  std::uint64_t offset_of(std::size_t i) const;
  // Memory of the device, and of the host, both at addresses that are multiples of 256; copies are
  // fastest to pinned memory. Beside EncodeLimits::scratch_bytes, which is all that a long message
  // takes of the device, some kilobytes, 130 bytes for each chunk, and up to 34 kilobytes for each
  // message; with a maximum error 2 MB more, and 10 bytes for each row.
  std::size_t workspace_bytes() const;
  std::size_t staging_bytes() const;

  // Asks for everything, on `stream`, after what is there already, and does not wait, unless there
  // is a maximum error: then it waits for a sample of the values, and plans. The length of the
  // message stays on the device. `values` has the bytes of the tensor, contiguous and aligned
  // to an element; `out` has max_message_bytes() and does not overlap them. All memory must stay,
  // and values must not change, until finish() has returned. May be called again after finish().
  // Errors: kInvalidArgument for memory or a stream of another device, memory that is too small, an
  // `out` that overlaps the values, and for a second call; kIo and kOutOfMemory of the driver.
  Result<void> enqueue(const void* values, void* out, void* workspace, MutableBytes staging,
                       Stream stream);
  // Does so for several messages: `values` of each tensor, `out` of out_bytes().
  Result<void> enqueue(std::span<const void* const> values, void* out, void* workspace,
                       MutableBytes staging, Stream stream);
  // Waits, and returns the length of the message. What the device does not encode (EncodeSummary)
  // makes the whole message the host's: values are copied there and the message back, now. Errors:
  // as enqueue(); kInvalidArgument before it, and for several messages; those of encode_message().
  Result<std::uint64_t> finish();
  // Waits for several messages, and returns their lengths.
  Result<std::vector<std::uint64_t>> finish_all();

  // Who has encoded the tensors so far.
  EncodeSummary summary() const;

 private:
  struct CFCK_LOCAL Part;
  struct CFCK_LOCAL Impl;
  struct CFCK_LOCAL Cancelling;
  explicit Encoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cfck::cuda
