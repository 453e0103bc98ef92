#include "format/container/tensor_checks.hpp"

#include <string>

#include "base/device.hpp"
#include "base/text.hpp"

namespace cfck::format {

Result<void> check_utf8_name(std::string_view name) {
  if (valid_utf8(name)) return {};
  return invalid_argument("a tensor's name must be valid UTF-8")
      .in_record(std::string(name.substr(0, 200)));
}

Result<void> check_metadata(std::string_view key, std::string_view value) {
  if (valid_utf8(key) && valid_utf8(value)) return {};
  return invalid_argument("metadata must be valid UTF-8");
}

Result<void> check_attachment_name(std::string_view name) {
  if (valid_utf8(name)) return {};
  return invalid_argument("the name of an attachment must be valid UTF-8");
}

Result<std::uint64_t> checked_bytes(std::string_view name, const TensorSource& tensor) {
  CFCK_TRY_ASSIGN(const std::uint64_t total, n_bytes(tensor.dtype, tensor.shape));
  if (total == 0) return total;
  if (tensor.source == nullptr || tensor.offset_bytes > tensor.source->size() ||
      total > tensor.source->size() - tensor.offset_bytes) {
    return invalid_argument("the tensor needs " + std::to_string(total) +
                            " bytes; its source has fewer")
        .in_record(std::string(name));
  }
  return total;
}

Result<std::uint64_t> checked_bytes(std::string_view name, const TensorView& tensor) {
  CFCK_TRY(check_on_host(tensor.device, name));
  CFCK_TRY_ASSIGN(const std::uint64_t total, n_bytes(tensor.dtype, tensor.shape));
  if (tensor.data.size() != total) {
    return invalid_argument("a tensor of this dtype and shape has " + std::to_string(total) +
                            " bytes, not " + std::to_string(tensor.data.size()))
        .in_record(std::string(name));
  }
  return total;
}

}  // namespace cfck::format
