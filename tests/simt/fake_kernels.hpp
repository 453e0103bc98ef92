// Kernels of the fake driver (fake_driver.cpp), which run on the emulator.
#pragma once

#include <cstddef>
#include <vector>

#include "codec/device_batch.hpp"
#include "cuda/kernels/decode_batch.cuh"
#include "cuda/kernels/encode_batch.cuh"
#include "tests/simt/emulator.hpp"

namespace cfck::cuda {

// A kernel as the driver gives it out: one of its forms.
struct FakeFunction {
  const char* name = nullptr;
  // Does what the kernel does with the bytes of its argument, started with so many blocks and
  // warps.
  void (*run)(unsigned n_blocks, unsigned n_warps, const std::byte* argument) = nullptr;
  std::size_t argument_bytes = 0;
  bool has_chunks = false;  // the argument is a codec::DeviceBatch
};

// The functions of the driver. Sources of kernels add theirs while the driver is loaded; none after
// that.
std::vector<FakeFunction>& fake_functions();

// Calls `run(batch, shared)` in every lane; `shared` has room for `max_warps` of Shared.
template <class Shared, class Batch, class Run>
void emulate(unsigned n_blocks, unsigned n_warps, unsigned max_warps, const std::byte* argument,
             Run&& run) {
  simt::Launch launch;
  launch.n_blocks = n_blocks;
  launch.warps_per_block = n_warps;
  const Batch& batch = *reinterpret_cast<const Batch*>(argument);
  simt::emulate(launch, sizeof(Shared) * max_warps,
                [&](void* shared) { run(batch, static_cast<Shared*>(shared)); });
}

template <class Chunks, unsigned max_warps>
void run_chunks(unsigned n_blocks, unsigned n_warps, const std::byte* argument) {
  using Shared = typename Chunks::Shared;
  emulate<Shared, codec::DeviceBatch>(
      n_blocks, n_warps, max_warps, argument,
      [](const codec::DeviceBatch& batch, Shared* shared) { decode_batch<Chunks>(batch, shared); });
}

template <class Chunks>
void run_teams(unsigned n_blocks, unsigned n_warps, const std::byte* argument) {
  using Shared = typename Chunks::TeamShared;
  emulate<Shared, codec::DeviceBatch>(n_blocks, n_warps, 1, argument,
                                      [](const codec::DeviceBatch& batch, Shared* shared) {
                                        decode_batch_by_teams<Chunks>(batch, *shared);
                                      });
}

template <class Chunks>
void run_encoder(unsigned n_blocks, unsigned n_warps, const std::byte* argument) {
  using Shared = EncodeShared<Chunks>;
  emulate<Shared, codec::DeviceEncodeBatch>(
      n_blocks, n_warps, 1, argument, [](const codec::DeviceEncodeBatch& batch, Shared* shared) {
        encode_batch<Chunks>(batch, *shared);
      });
}

// The forms of a decoder, as CFCK_DECODER of device/kernels.inc.
#define CFCK_FAKE_DECODER(name, Codec, dtype, Dtype, warps, blocks, team_blocks) \
  {"cfck_" #name "_" #dtype, run_chunks<codec::Codec##Chunks##Dtype, warps>,     \
   sizeof(codec::DeviceBatch), true},                                            \
      {"cfck_" #name "_team_" #dtype, run_teams<codec::Codec##Chunks##Dtype>,    \
       sizeof(codec::DeviceBatch), true},

// The form of an encoder, as CFCK_ENCODER.
#define CFCK_FAKE_ENCODER(name, Codec, dtype, Dtype, warps, blocks)             \
  {"cfck_encode_" #name "_" #dtype, run_encoder<Codec##Encoding##Dtype<warps>>, \
   sizeof(codec::DeviceEncodeBatch)},

}  // namespace cfck::cuda
