// Kernels that encode a chunk call these, by codec and dtype (device/kernels.inc). Codec direct
// compares with codec lossless: neither knows the other.
#pragma once

#include "codec/direct/device/encode_chunks_device.cuh"
#include "codec/lossless/device/encode_chunks_device.cuh"

namespace cfck::cuda {

using codec::LosslessEncodingBf16;
using codec::LosslessEncodingF16;
using codec::LosslessEncodingF32;
using codec::LosslessEncodingF64;

template <class Value, class Format, unsigned n_warps>
using DirectEncoding =
    codec::DirectEncoding<Value, codec::LosslessInstead<codec::With32Symbols<Format>, n_warps>,
                          n_warps>;
template <unsigned n_warps>
using DirectEncodingF64 = DirectEncoding<codec::ValueF64, codec::FormatF64, n_warps>;
template <unsigned n_warps>
using DirectEncodingF32 = DirectEncoding<codec::ValueF32, codec::FormatF32, n_warps>;
template <unsigned n_warps>
using DirectEncodingBf16 = DirectEncoding<codec::ValueBf16, codec::FormatBf16, n_warps>;
template <unsigned n_warps>
using DirectEncodingF16 = DirectEncoding<codec::ValueF16, codec::FormatF16, n_warps>;

}  // namespace cfck::cuda
