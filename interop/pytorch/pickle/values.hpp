// What the pickle of a PyTorch file describes: values, containers and tensors; never code.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
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
  kBytearray,   // text
  kTuple,       // items
  kList,        // items
  kDict,        // items: key, value, key, value...
  kOrderedDict,
  kCounter,
  kSet,
  kFrozenset,
  kGlobal,      // text: "torch FloatStorage"
  kStorage,     // index in Pickle::storages
  kTensor,      // index in Pickle::tensors
  kMetaTensor,  // index in Pickle::meta_tensors
  kParameter,   // items: its tensor, which may be one without values; integer: requires_grad
  kSparse,      // items: layout, tensors of indices, tensor of values, size; perhaps is_coalesced
  kSize,        // items: integers
  kDType,       // text
  kDevice,      // text
  kLayout,      // text: "sparse_coo"
  // Values that no checkpoint can have. They are refused where the tree of the pickle has them.
  kClass,    // a class or function that is not known. text: its name; integer: its byte
  kObject,   // what such a function would return. text: its class; integer: its byte; items: parts
  kRefused,  // text: what it is and what to do; items: parts
};

// True for values that a checkpoint cannot have.
constexpr bool is_unknown(NodeKind kind) {
  return kind == NodeKind::kClass || kind == NodeKind::kObject || kind == NodeKind::kRefused;
}

struct Node {
  NodeKind kind = NodeKind::kNone;
  bool has_attributes = false;  // kOrderedDict, kTensor, kParameter
  NodeId attributes = 0;        // a dict
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
  std::string key;                 // the member "data/KEY" has its bytes
  std::string_view torch_dtype{};  // empty: counted in bytes, the dtype comes with the tensor
  std::uint64_t elem_bytes = 1;
  std::uint64_t n_elems = 0;
  std::uint64_t first_elem = 0;  // in the bytes: a storage may be part of another one
};

struct PickledTensor {
  std::size_t storage = 0;
  DType dtype = DType::kU8;
  // "complex128" or "complex32", for which cfck has no dtype: real and imaginary part are a last
  // dimension of two. Else empty.
  std::string_view complex_dtype{};
  std::uint64_t offset_bytes = 0;  // in its storage
  Shape shape;
  std::vector<std::uint64_t> strides;  // in elements
  bool requires_grad = false;
  // Lazy operations: the values are the opposite of the stored ones, or their conjugates.
  bool negated = false;
  bool conjugated = false;
};

struct PickledMetaTensor {
  std::string_view torch_dtype{};
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> strides;
  bool requires_grad = false;
};

struct Pickle {
  std::deque<Node> nodes;  // grows without a copy of all of them
  NodeId root = 0;
  std::uint64_t n_bytes = 0;      // of the pickle, which may have others behind it
  std::optional<NodeId> unknown;  // the first class or function that is not known
  std::vector<PickledStorage> storages;
  std::vector<PickledTensor> tensors;
  std::vector<PickledMetaTensor> meta_tensors;
};

}  // namespace cfck::interop
