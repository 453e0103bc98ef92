// Checkpoints: containers and plain values beside the tensors of a .cfck file, as
// cfck.torch.save_checkpoint writes them in Python. spec/checkpoint.md describes the bytes.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cfck/export.hpp"
#include "cfck/status.hpp"

namespace cfck {

// The name of the attachment that has the skeleton, and the most bytes that it may have.
inline constexpr std::string_view kCheckpointAttachment = "cfck.checkpoint";
inline constexpr std::uint64_t kMaxCheckpointBytes = std::uint64_t{64} << 20;

// An integer beyond 64 bits: sign, "0x", lower-case digits ("-0x1f").
struct BigInteger {
  std::string digits;
  bool operator==(const BigInteger&) const = default;
};

struct CheckpointBytes {
  std::string bytes;
  bool is_bytearray = false;
  bool operator==(const CheckpointBytes&) const = default;
};

// A numpy scalar: the name of its dtype ("float32") and its bytes, little-endian.
struct NumpyScalar {
  std::string dtype;
  std::string bytes;
  bool operator==(const NumpyScalar&) const = default;
};

struct TorchSize {
  std::vector<std::int64_t> sizes;
  bool operator==(const TorchSize&) const = default;
};

// A dtype by the name PyTorch gives it ("float32"), and a device as PyTorch prints it ("cuda:0").
struct TorchDType {
  std::string name;
  bool operator==(const TorchDType&) const = default;
};
struct TorchDevice {
  std::string name;
  bool operator==(const TorchDevice&) const = default;
};

// A layout of tensors by the name PyTorch gives it ("sparse_coo").
struct TorchLayout {
  std::string name;
  bool operator==(const TorchLayout&) const = default;
};

// The tensor in the record of this name: a PyTorch tensor, one that is a parameter, a numpy array.
struct TensorReference {
  enum class Kind : std::uint8_t { kTensor, kParameter, kArray };
  Kind kind = Kind::kTensor;
  std::string record;
  bool requires_grad = false;  // of tensors of PyTorch
  // "complex128" or "complex32" where the record has real and imaginary part in a last dimension of
  // two; empty: the tensor has the dtype of the record. Of tensors of PyTorch.
  std::string dtype = {};
  bool operator==(const TensorReference&) const = default;
};

// A PyTorch tensor without values, on the device "meta".
struct MetaTensor {
  std::string dtype;  // as PyTorch names it
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  bool is_parameter = false;
  bool requires_grad = false;
  bool operator==(const MetaTensor&) const = default;
};

// A container, as an index in Checkpoint::containers.
struct ContainerReference {
  std::size_t index = 0;
  bool operator==(const ContainerReference&) const = default;
};

struct CheckpointValue;

// A tuple as a key of a dict or an element of a set; tuples elsewhere are containers.
struct TupleKey {
  std::vector<CheckpointValue> items;
  CFCK_API bool operator==(const TupleKey&) const;
};

// One value; std::monostate is Python's None.
struct CheckpointValue {
  using Variant =
      std::variant<std::monostate, bool, std::int64_t, BigInteger, double, std::complex<double>,
                   std::string, CheckpointBytes, NumpyScalar, TorchSize, TorchDType, TorchDevice,
                   TensorReference, ContainerReference, TupleKey, TorchLayout, MetaTensor>;
  Variant value;
  bool operator==(const CheckpointValue&) const = default;
};

struct CheckpointContainer {
  enum class Kind : std::uint8_t {
    kList,
    kTuple,
    kDict,
    kOrderedDict,
    kCounter,
    kStateDict,  // an OrderedDict with metadata, as Module.state_dict() of PyTorch returns it
    kSet,
    kFrozenset,
    // An object with attributes that were set on it: a tensor, a parameter or an OrderedDict.
    kAttributes,
    // A sparse tensor of PyTorch: its layout, its tensors of indices (one for the layout
    // sparse_coo, else two), its tensor of values, its size; for sparse_coo also whether it is
    // coalesced.
    kSparse,
  };
  Kind kind = Kind::kDict;
  std::vector<CheckpointValue> keys;    // of dicts and kAttributes: one for each of `values`
  std::vector<CheckpointValue> values;  // the elements; those of sets are keys
  CheckpointValue metadata;             // of kStateDict; the object of kAttributes

  // True for the dicts and kAttributes.
  CFCK_API bool has_keys() const;
};

// A tree of containers. Each container refers to containers before it only, and a container that
// several refer to is one object.
struct Checkpoint {
  std::vector<CheckpointContainer> containers;
  CheckpointValue root;

  // Returns the container that `value` refers to, or nullptr.
  CFCK_API const CheckpointContainer* container(const CheckpointValue& value) const;
  // Returns the value of a string key of a dict, or nullptr.
  CFCK_API static const CheckpointValue* find(const CheckpointContainer& dict,
                                              std::string_view key);
};

// Reads a skeleton, the bytes of the attachment kCheckpointAttachment. Errors: kCorrupt for what
// spec/checkpoint.md forbids, kUnsupported for values of a newer version, kLimitExceeded.
CFCK_API Result<Checkpoint> parse_checkpoint(std::string_view json);

// Returns the skeleton of a checkpoint. Errors: kInvalidArgument for what a reader would refuse,
// with the container; kLimitExceeded above kMaxCheckpointBytes.
CFCK_API Result<std::string> format_checkpoint(const Checkpoint& checkpoint);

// Names records by their paths, as spec/checkpoint.md section 4 says: steps joined by dots, with
// "~2", "~3" and so on where a path was used before. Not thread-safe.
class CFCK_API CheckpointNames {
 public:
  std::string name(std::span<const std::string> steps);
  // The same for a path whose steps are joined already, and long ones shortened.
  std::string name(const std::string& path);

 private:
  std::map<std::string, std::size_t> suffixes_;
  std::set<std::string> used_;
};

// Returns a key as a step of a path.
CFCK_API std::string checkpoint_step(const CheckpointValue& key);
// True for the keys below which the tensors are state of an optimizer: "optimizer", "optim" and the
// like. Error bounds and targets leave these tensors alone.
CFCK_API bool is_optimizer_key(std::string_view key);

}  // namespace cfck
