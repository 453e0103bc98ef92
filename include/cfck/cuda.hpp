// Reads tensors of a .cfck file into the memory of an NVIDIA device: compressed bytes are copied
// there and decoded there, to the same bits as on the CPU (docs/devices.md). No header of CUDA is
// needed, and a machine without a device can build and run a program that uses this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cfck/device.hpp"
#include "cfck/export.hpp"
#include "cfck/io.hpp"
#include "cfck/reader.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"

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

}  // namespace cfck::cuda
