// Finds order statistics in fixed memory: a few keys are sorted; of many, the first pass and each
// further one over the keys find 16 bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cfck::tools {

class KeySelector {
 public:
  // Requires: at most `most_keys` are added in a pass.
  KeySelector(unsigned key_bits, std::uint64_t most_keys);

  // Adds keys, equal ones in each pass, until it is done.
  void add(std::span<const std::uint64_t> keys);
  // Ends the first pass: `ranks` are those of the keys to find, counted from 0 in ascending order.
  // Requires: ascending ranks below the number of keys.
  void end_first_pass(std::span<const std::uint64_t> ranks);
  void end_pass();
  bool done() const { return unknown_bits_ == 0; }
  // Returns the keys in the order of the ranks.
  std::vector<std::uint64_t> found() const;

 private:
  struct Target {
    std::uint64_t rank = 0;    // among the keys that begin with `prefix`
    std::uint64_t prefix = 0;  // the bits known so far
  };
  struct Counts {
    std::uint64_t prefix = 0;
    std::vector<std::uint64_t> of_next;  // keys with the prefix, by the next 16 bits
  };

  void begin_pass();

  bool sorts_;
  std::vector<std::uint64_t> sorted_;
  unsigned unknown_bits_;
  std::vector<Target> targets_;
  std::vector<Counts> counts_;  // ascending prefixes
};

}  // namespace cfck::tools
