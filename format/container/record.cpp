#include "cfck/record.hpp"

namespace cfck {

double Record::bits_per_weight() const {
  if (n_elems == 0) return 0;
  return 8.0 * static_cast<double>(stored_bytes) / static_cast<double>(n_elems);
}

}  // namespace cfck
