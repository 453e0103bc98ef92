// Finds order statistics without sorting and in fixed memory: one pass over the
// keys for each 16 bits of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cfck::tools {

class KeySelector {
 public:
  explicit KeySelector(unsigned key_bits);

  // The same keys in each pass.
  void add(std::span<const std::uint64_t> keys);
  // Ends the first pass: which keys to find, counted from 0 in ascending order.
  // Requires: ascending ranks below the number of keys.
  void end_first_pass(std::span<const std::uint64_t> ranks);
  void end_pass();
  bool done() const { return unknown_bits_ == 0; }
  // In the order of the ranks.
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

  unsigned unknown_bits_;
  std::vector<Target> targets_;
  std::vector<Counts> counts_;  // ascending prefixes
};

}  // namespace cfck::tools
