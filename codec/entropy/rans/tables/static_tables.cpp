#include "codec/entropy/rans/tables/static_tables.hpp"

#include <memory>

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

// Tables of the encoder are about ten times as large, and a process uses few of them: each has
// memory of its own, which is kept.
struct EncodeTableCache {
  Once built[kStaticTables];
  RansEncodeTable* tables[kStaticTables] = {};
};

constinit EncodeTableCache encode_tables;

}  // namespace

const Frequencies& static_frequencies(unsigned number) noexcept { return kFrequencies[number]; }

const RansDecodeTable& static_decode_table(unsigned number) noexcept {
  return decode_tables.get(number, build_decode_table);
}

const RansEncodeTable& static_encode_table(unsigned number) {
  RansEncodeTable*& table = encode_tables.tables[number];
  encode_tables.built[number].run([&] {
    auto made = std::make_unique<RansEncodeTable>();
    build_encode_table(kFrequencies[number], *made);
    table = made.release();
  });
  return *table;
}

}  // namespace cfck::codec
