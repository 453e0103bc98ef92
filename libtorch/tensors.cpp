#include "libtorch/tensors.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <array>
#include <map>
#include <tuple>

#include "cfck/dtype.hpp"

namespace cfck::libtorch {
namespace {

struct Pair {
  at::ScalarType type;
  DType dtype;
};
constexpr std::array kTypes = {
    Pair{at::kBool, DType::kBool},
    Pair{at::kByte, DType::kU8},
    Pair{at::kChar, DType::kI8},
    Pair{at::kShort, DType::kI16},
    Pair{at::kUInt16, DType::kU16},
    Pair{at::kInt, DType::kI32},
    Pair{at::kUInt32, DType::kU32},
    Pair{at::kLong, DType::kI64},
    Pair{at::kUInt64, DType::kU64},
    Pair{at::kHalf, DType::kF16},
    Pair{at::kBFloat16, DType::kBF16},
    Pair{at::kFloat, DType::kF32},
    Pair{at::kDouble, DType::kF64},
    Pair{at::kComplexFloat, DType::kC64},
    Pair{at::kFloat8_e5m2, DType::kF8E5M2},
    Pair{at::kFloat8_e4m3fn, DType::kF8E4M3},
    Pair{at::kFloat8_e5m2fnuz, DType::kF8E5M2Fnuz},
    Pair{at::kFloat8_e4m3fnuz, DType::kF8E4M3Fnuz},
    Pair{at::kFloat8_e8m0fnu, DType::kF8E8M0},
    Pair{at::kFloat4_e2m1fn_x2, DType::kF4},
};

void add_tensors(const torch::nn::Module& module, const std::string& prefix,
                 std::vector<NamedTensor>& tensors) {
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    tensors.push_back({prefix + item.key(), item.value(), true});
  }
  for (const auto& item : module.named_buffers(/*recurse=*/false)) {
    tensors.push_back({prefix + item.key(), item.value(), false});
  }
  for (const auto& item : module.named_children()) {
    add_tensors(*item.value(), prefix + item.key() + ".", tensors);
  }
}

// The storages of other devices, as flat tensors of one dtype on the CPU.
class HostCopies {
 public:
  at::Tensor copy(const at::Tensor& tensor) {
    const auto type = tensor.scalar_type();
    at::Tensor& flat = flat_[{tensor.storage().unsafeGetStorageImpl(), type}];
    if (!flat.defined()) {
      const auto n = static_cast<std::int64_t>(tensor.storage().nbytes() / tensor.element_size());
      flat = tensor.as_strided({n}, {1}, 0).cpu();
    }
    return flat.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  }

 private:
  std::map<std::pair<const void*, at::ScalarType>, at::Tensor> flat_;
};

}  // namespace

Result<void> check_plain(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return invalid_argument("the tensor is undefined; give it values, or leave it out");
  }
  const char* what = nullptr;
  if (tensor.layout() != at::kStrided) what = "sparse; save tensor.to_dense()";
  if (tensor.is_quantized()) what = "quantised; save tensor.dequantize()";
  if (tensor.is_meta()) what = "on device meta, where it has no values";
  if (what != nullptr) return unsupported(std::string("the tensor is ") + what);
  return {};
}

std::vector<NamedTensor> tensors_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> tensors;
  add_tensors(module, "", tensors);
  return tensors;
}

Result<DType> dtype_of(at::ScalarType type) {
  for (const Pair& pair : kTypes) {
    if (pair.type == type) return pair.dtype;
  }
  return unsupported(std::string("cfck does not store tensors of the dtype ") + at::toString(type) +
                     "; convert the tensor first");
}

Result<at::ScalarType> scalar_type_of(DType dtype) {
  for (const Pair& pair : kTypes) {
    if (pair.dtype == dtype) return pair.type;
  }
  return unsupported("libtorch has no dtype for " + std::string(dtype_name(dtype)));
}

Result<std::vector<std::int64_t>> sizes_of(DType dtype, const Shape& shape) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  if (dtype != DType::kF4) return sizes;
  if (sizes.empty() || sizes.back() % 2 != 0) {
    return unsupported("libtorch cannot hold F4 with an odd last dimension");
  }
  sizes.back() /= 2;
  return sizes;
}

Result<Prepared> prepare(const std::vector<NamedTensor>& tensors) {
  const torch::NoGradGuard no_grad;
  Prepared prepared;
  HostCopies copies;
  for (const NamedTensor& named : tensors) {
    if (auto plain = check_plain(named.tensor); !plain) {
      return std::move(plain).error().in_record(named.name);
    }
    at::Tensor tensor = named.tensor.detach();
    auto dtype = dtype_of(tensor.scalar_type());
    if (!dtype) return std::move(dtype).error().in_record(named.name);
    // Views whose signs are to be changed when they are read.
    tensor = tensor.resolve_conj().resolve_neg();
    if (!tensor.is_cpu()) tensor = copies.copy(tensor);
    StridedTensor strided;
    strided.name = named.name;
    strided.dtype = *dtype;
    if (*dtype == DType::kF4) {
      tensor = tensor.contiguous();
      if (tensor.dim() == 0) {
        return unsupported("F4 tensors of no dimensions cannot be stored").in_record(named.name);
      }
    }
    strided.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
    strided.strides.assign(tensor.strides().begin(), tensor.strides().end());
    if (*dtype == DType::kF4) {
      strided.shape.back() *= 2;
      std::uint64_t stride = 1;
      for (std::size_t axis = strided.shape.size(); axis-- > 0;) {
        strided.strides[axis] = stride;
        stride *= strided.shape[axis];
      }
    }
    strided.data = static_cast<const std::byte*>(tensor.const_data_ptr());
    prepared.tensors.push_back(std::move(strided));
    prepared.owners.push_back(std::move(tensor));
  }
  return prepared;
}

bool has_shape(const at::Tensor& tensor, const ArchiveTensor& source) {
  const auto sizes = sizes_of(source.dtype, source.shape);
  return sizes && tensor.sizes() == at::IntArrayRef(*sizes);
}

Result<at::Tensor> tensor_for(const TensorArchive& archive, const ArchiveTensor& source) {
  CFCK_TRY(archive.check_decoded_bytes(source, source.n_bytes));
  auto type = scalar_type_of(source.dtype);
  if (!type) return std::move(type).error().in_record(source.name);
  auto sizes = sizes_of(source.dtype, source.shape);
  if (!sizes) return std::move(sizes).error().in_record(source.name);
  return at::empty(*sizes, at::TensorOptions().dtype(*type));
}

Result<void> read_into(const TensorArchive& archive, const std::vector<Target>& targets) {
  const torch::NoGradGuard no_grad;
  std::vector<ArchiveRead> direct;
  std::vector<const Target*> copied;
  // Names that share all of their memory are decoded once; of several values the last one counts,
  // as it does in torch.
  std::map<std::tuple<const void*, std::uint64_t>, std::size_t> taken;
  for (const Target& target : targets) {
    const at::Tensor& tensor = target.tensor;
    const auto dtype = dtype_of(tensor.scalar_type());
    if (!dtype || *dtype != target.source->dtype || !tensor.is_cpu() || !tensor.is_contiguous() ||
        tensor.is_conj() || tensor.is_neg()) {
      copied.push_back(&target);
      continue;
    }
    const std::uint64_t n_bytes = target.source->n_bytes;
    if (n_bytes == 0) continue;
    const auto [place, is_new] =
        taken.try_emplace({tensor.const_data_ptr(), n_bytes}, direct.size());
    if (!is_new) {
      direct[place->second].tensor = target.source;
      continue;
    }
    // So that autograd knows that what it kept has changed, as after copy_().
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
    auto* const data = static_cast<std::byte*>(tensor.data_ptr());
    direct.push_back({target.source, MutableBytes(data, n_bytes)});
  }
  CFCK_TRY(archive.read_many(direct));
  for (const Target* target : copied) {
    CFCK_TRY_ASSIGN(at::Tensor decoded, tensor_for(archive, *target->source));
    const MutableBytes out(static_cast<std::byte*>(decoded.data_ptr()), target->source->n_bytes);
    if (!out.empty()) CFCK_TRY(archive.read(*target->source, out));
    at::Tensor tensor = target->tensor;
    tensor.copy_(decoded);
  }
  return {};
}

}  // namespace cfck::libtorch
