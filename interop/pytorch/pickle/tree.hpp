// From the values of a pickle to containers and records, as cfck.torch.save_checkpoint makes them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cfck/checkpoint.hpp"
#include "interop/pytorch/pickle/values.hpp"

namespace cfck::interop {

struct NamedTensor {
  std::string name;
  std::size_t tensor = 0;  // in Pickle::tensors; that of an earlier name for a tensor with several
};

// A value that is no tensor and was not understood, or that cannot be stored.
struct LeftOutValue {
  std::string path;  // of keys and indices, joined by dots
  std::string what;  // "argparse.Namespace"
};

struct PickleTree {
  Checkpoint checkpoint;
  // Every path to a tensor has a name of its own, also those through a container that is in several
  // places.
  std::vector<NamedTensor> tensors;
  // Where the tensors alone are wanted: the first values of which nothing else was taken, how many
  // there are, and how many plain values.
  std::vector<LeftOutValue> left_out;
  std::uint64_t n_left_out = 0;
  std::uint64_t n_plain = 0;
};

// With `only_tensors` the tree has no containers, and nothing is refused. Errors: kUnsupported for
// values that a checkpoint cannot have, with their path; kLimitExceeded.
Result<PickleTree> tree_of(const Pickle& pickle, bool only_tensors);

}  // namespace cfck::interop
