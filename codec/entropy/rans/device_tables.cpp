#include "codec/entropy/rans/device_tables.hpp"

#include <vector>

#include "base/forks/forks.hpp"

namespace cfck::codec {
namespace {

// The part of bucket b that an entry is for. Entries have rank - slot.
BucketPart part_of(std::uint32_t entry, unsigned bucket, std::uint32_t number) {
  return {number, static_cast<std::uint32_t>(entry_bias(entry)) + bucket * kRansBucket,
          entry_frequency(entry)};
}

}  // namespace

void fill_device_table(const RansDecodeTable& from, DeviceTable& table) {
  for (unsigned b = 0; b < kRansSymbols; ++b) {
    const std::uint32_t alias = from.entry[b + kRansSymbols];
    pack_bucket(part_of(from.entry[b], b, from.limit[b] - b * kRansBucket),
                part_of(alias, b, entry_symbol(alias)), b, table.own[b], table.alias[b]);
  }
}

std::span<const DeviceTable> static_device_tables() {
  static constinit MadeOnce<std::vector<DeviceTable>> tables;
  return tables.get([] {
    std::vector<DeviceTable> all(kStaticTables);
    for (unsigned i = 0; i < kStaticTables; ++i) {
      fill_device_table(static_decode_table(i), all[i]);
    }
    return all;
  });
}

}  // namespace cfck::codec
