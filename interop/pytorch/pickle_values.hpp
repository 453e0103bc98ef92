// What the pickle of a PyTorch file describes: values, containers and tensors; never code.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "cfck/dtype.hpp"
#include "cfck/tensor.hpp"

namespace cfck::interop {

// The index of a value in Pickle::nodes. Values may be used in several places.
using NodeId = std::uint32_t;

enum class NodeKind : std::uint8_t {
  kNone,
  kBool,        // integer
  kInteger,     // integer
  kBigInteger,  // text: "-0x1f"
  kFloat,       // real
  kComplex,     // real, imaginary
  kText,        // text
  kBytes,       // text
  kTuple,       // items
  kList,        // items
  kDict,        // items: key, value, key, value...
  kOrderedDict,
  kCounter,
  kSet,
  kFrozenset,
  kGlobal,     // text: "torch FloatStorage"
  kStorage,    // index in Pickle::storages
  kTensor,     // index in Pickle::tensors
  kParameter,  // items: its tensor; integer: requires_grad
  kSize,       // items: integers
  kDType,      // text
  kDevice,     // text
};

struct Node {
  NodeKind kind = NodeKind::kNone;
  bool has_metadata = false;  // kOrderedDict: its attribute _metadata
  NodeId metadata = 0;
  std::int64_t integer = 0;
  double real = 0;
  double imaginary = 0;
  std::string text;
  std::vector<NodeId> items;
};

// The most values that a pickle makes, and that its tree has; a value takes about 100 bytes, in
// both.
inline constexpr std::uint64_t kMaxPickledValues = std::uint64_t{1} << 22;

struct PickledStorage {
  std::string key;       // the member "data/KEY" has its bytes
  bool is_typed = true;  // false: counted in bytes, the dtype comes with the tensor
  DType dtype = DType::kU8;
  std::uint64_t n_elems = 0;
};

struct PickledTensor {
  std::size_t storage = 0;
  DType dtype = DType::kU8;
  std::uint64_t first_elem = 0;  // in its storage
  Shape shape;
  std::vector<std::uint64_t> strides;  // in elements
};

struct Pickle {
  std::deque<Node> nodes;  // grows without a copy of all of them
  NodeId root = 0;
  std::vector<PickledStorage> storages;
  std::vector<PickledTensor> tensors;
};

}  // namespace cfck::interop
