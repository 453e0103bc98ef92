#include "codec/entropy/rans/device_choice_tables.hpp"

#include <vector>

#include "base/forks/forks.hpp"
#include "codec/entropy/rans/tables/static_tables.hpp"

namespace cfck::codec {

std::span<const std::uint16_t> static_table_frequencies() {
  static constinit MadeOnce<std::vector<std::uint16_t>> frequencies;
  return frequencies.get([] {
    std::vector<std::uint16_t> all;
    for (unsigned i = 0; i < kStaticTables; ++i) {
      const Frequencies& of = static_frequencies(i);
      all.insert(all.end(), of.begin(), of.end());
    }
    return all;
  });
}

}  // namespace cfck::codec
