#include "cfck/owned_tensor.hpp"

#include <new>
#include <utility>

#include "base/run_guarded.hpp"

namespace cfck {

void OwnedTensor::Free::operator()(std::byte* memory) const noexcept {
  ::operator delete[](memory, std::align_val_t{kAlignmentBytes});
}

Result<OwnedTensor> OwnedTensor::allocate(DType dtype, Shape shape) {
  CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, cfck::n_bytes(dtype, shape));
  OwnedTensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.n_bytes_ = n_bytes;
  if (n_bytes != 0) {
    tensor.memory_.reset(static_cast<std::byte*>(
        ::operator new[](n_bytes, std::align_val_t{kAlignmentBytes}, std::nothrow)));
    if (tensor.memory_ == nullptr) {
      return out_of_memory();
    }
  }
  return tensor;
}

}  // namespace cfck
