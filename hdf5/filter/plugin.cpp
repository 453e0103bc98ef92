// The filter plug-in of HDF5: what libhdf5 looks for in a shared library, and its three callbacks.
// They are called by any libhdf5 of the process, each found by where the call comes from.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/forks/forks.hpp"
#include "base/memory_pool.hpp"
#include "base/run_guarded.hpp"
#include "hdf5/filter/calling_library.hpp"
#include "hdf5/filter/chunk_codec.hpp"
#include "hdf5/filter/dataset.hpp"
#include "hdf5/filter/values.hpp"

namespace cfck::hdf5 {
namespace {

constexpr int kFailed = -1;
constexpr unsigned kMandatory = 0;  // H5Z_FLAG_MANDATORY

// Working memory, kept between chunks. Never destroyed: a library may call while the process ends.
MemoryPool<std::unique_ptr<ChunkMemory>>& pool() {
  static constinit MadeOnce<MemoryPool<std::unique_ptr<ChunkMemory>>> memories;
  return memories.get([] { return MemoryPool<std::unique_ptr<ChunkMemory>>(); });
}

class PooledMemory {
 public:
  PooledMemory() : memory_(pool().take()) {
    if (memory_ == nullptr) {
      memory_ = std::make_unique<ChunkMemory>();
    }
  }
  ~PooledMemory() {
    try {
      pool().give_back(std::move(memory_));
    } catch (...) {  // then it is freed
    }
  }
  PooledMemory(const PooledMemory&) = delete;
  PooledMemory& operator=(const PooledMemory&) = delete;
  ChunkMemory& operator*() { return *memory_; }

 private:
  std::unique_ptr<ChunkMemory> memory_;
};

// The buffer of a filter call, which the library owns and the filter may replace.
struct Buffer {
  const Hdf5Functions& hdf5;
  std::size_t* capacity;
  void** bytes;

  Result<MutableBytes> fresh(std::size_t n_bytes) const {
    void* const memory = hdf5.allocate(n_bytes);
    if (memory == nullptr) {
      return out_of_memory();
    }
    return MutableBytes(static_cast<std::byte*>(memory), n_bytes);
  }
  void replace(MutableBytes with) const {
    hdf5.release(*bytes);
    *bytes = with.data();
    *capacity = with.size();
  }
};

Result<std::size_t> encode(std::span<const unsigned> words, ByteView bytes, const Buffer& buffer) {
  CFCK_TRY_ASSIGN(const FilterRequest request, parse_request(words));
  CFCK_TRY_ASSIGN(const ChunkValues values, parse_chunk_values(words));
  PooledMemory memory;
  CFCK_TRY_ASSIGN(const StoredChunk stored, store_chunk(request, values, bytes, *memory));
  const std::size_t n_stored = stored.header.size() + stored.payload.size();
  // A raw payload may be the buffer's own bytes: it moves before the header takes its place.
  const auto write = [&](std::byte* to) {
    std::memmove(to + stored.header.size(), stored.payload.data(), stored.payload.size());
    std::memcpy(to, stored.header.data(), stored.header.size());
  };
  if (n_stored <= *buffer.capacity) {
    write(static_cast<std::byte*>(*buffer.bytes));
    return n_stored;
  }
  CFCK_TRY_ASSIGN(const MutableBytes fresh, buffer.fresh(n_stored));
  write(fresh.data());
  buffer.replace(fresh);
  return n_stored;
}

Result<std::size_t> decode(std::span<const unsigned> words, ByteView stored, const Buffer& buffer) {
  CFCK_TRY(parse_request(words));
  CFCK_TRY_ASSIGN(const ChunkValues values, parse_chunk_values(words));
  CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, check_stored(values, stored));
  CFCK_TRY_ASSIGN(const MutableBytes fresh, buffer.fresh(n_bytes));
  const auto decoded = run_guarded([&]() -> Result<void> {
    PooledMemory memory;
    return load_chunk(values, stored, *memory, fresh);
  });
  if (!decoded) {
    buffer.hdf5.release(fresh.data());
    return decoded.error();
  }
  buffer.replace(fresh);
  return std::size_t{n_bytes};
}

// Tells whether the dataset can be had with what its properties ask of the filter. A refusal is an
// error even if the filter is optional: nobody is to believe that a bound was applied.
int can_apply(Id creation, Id type, Id) {
  const Hdf5Functions& hdf5 = calling_library(__builtin_return_address(0));
  const auto dataset = run_guarded([&] { return describe(hdf5, creation, type); });
  if (!dataset) {
    hdf5.push("can_apply", dataset.error());
    return kFailed;
  }
  return 1;
}

int set_local(Id creation, Id type, Id) {
  const Hdf5Functions& hdf5 = calling_library(__builtin_return_address(0));
  const auto done = run_guarded([&]() -> Result<void> {
    CFCK_TRY_ASSIGN(const Dataset dataset, describe_new(hdf5, creation, type));
    const std::vector<unsigned> words = complete_words(dataset.words, dataset.values);
    if (hdf5.H5Pmodify_filter(creation, kFilterId, kMandatory, words.size(), words.data()) < 0) {
      return internal_error("HDF5 does not take the client data of the filter");
    }
    return {};
  });
  if (!done) {
    hdf5.push("set_local", done.error());
    return kFailed;
  }
  return 0;
}

// Returns the number of bytes in the buffer; 0: failed, and the buffer is as it was.
std::size_t filter(unsigned flags, std::size_t n_words, const unsigned* words, std::size_t n_bytes,
                   std::size_t* capacity, void** bytes) {
  const Hdf5Functions& hdf5 = calling_library(__builtin_return_address(0));
  const auto done = run_guarded([&] {
    const std::span<const unsigned> client(words, n_words);
    const ByteView given(static_cast<const std::byte*>(*bytes), n_bytes);
    const Buffer buffer{hdf5, capacity, bytes};
    return (flags & kFlagReverse) != 0 ? decode(client, given, buffer)
                                       : encode(client, given, buffer);
  });
  if (!done) {
    hdf5.push("filter", done.error());
    return 0;
  }
  return *done;
}

constexpr FilterClass kClass = {
    kFilterClassVersion, kFilterId,  1,       1, "cfck: lossless, error-bounded or to a rate",
    &can_apply,          &set_local, &filter,
};

}  // namespace
}  // namespace cfck::hdf5

extern "C" {

__attribute__((visibility("default"))) int H5PLget_plugin_type() {
  return cfck::hdf5::kPluginTypeFilter;
}

__attribute__((visibility("default"))) const void* H5PLget_plugin_info() {
  return &cfck::hdf5::kClass;
}
}
