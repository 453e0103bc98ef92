#include "codec/entropy/rans/tables/static_tables.hpp"

#include "base/forks/forks.hpp"

namespace cfck::codec {
namespace {

constexpr Frequencies kFrequencies[kStaticTables] = {
#include "codec/entropy/rans/tables/static_tables.inc"
};

// The cache is in memory that the linker sets aside, so that nothing can fail.
template <class Table>
struct TableCache {
  Once built[kStaticTables];
  Table tables[kStaticTables] = {};

  template <class Build>
  const Table& get(unsigned number, Build&& build) noexcept {
    built[number].run([&] { build(kFrequencies[number], tables[number]); });
    return tables[number];
  }
};

constinit TableCache<RansDecodeTable> decode_tables;

}  // namespace

const Frequencies& static_frequencies(unsigned number) noexcept { return kFrequencies[number]; }

const RansDecodeTable& static_decode_table(unsigned number) noexcept {
  return decode_tables.get(number, build_decode_table);
}

}  // namespace cfck::codec
