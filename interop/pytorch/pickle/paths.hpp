// The path to a value of a pickle: keys and indices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cfck::interop {

// A path is as long as a pickle likes, and all its tensors may have it: a name costs no more than
// its own length, since what is left out of a long one is not looked at.
class PicklePath {
 public:
  // Adds a step, whose text set_last() says. A part of an object has no step in names.
  void push() { steps_.emplace_back(); }
  void pop() { steps_.pop_back(); }
  void set_last(std::string text, bool is_named = true);

  // Returns the steps joined by dots; of more than 1000 characters, the first and the last 500.
  std::string name() const;
  // Returns "checkpoint['a']['b']", cut off after some hundred bytes.
  std::string shown() const;

 private:
  struct Step {
    std::string text;
    std::uint64_t n_characters = 0;
    bool is_named = true;
  };

  std::vector<Step> steps_;
};

}  // namespace cfck::interop
