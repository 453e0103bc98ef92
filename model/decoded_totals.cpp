#include "model/decoded_totals.hpp"

#include "base/bytes.hpp"

namespace cfck::model {

Result<void> DecodedTotals::add(const ArchiveTensor& tensor) {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  if (tensor.offset_bytes && tensor.sharing == Sharing::kNone) return {};
  CFCK_TRY(archive_.check_decoded_bytes(tensor, tensor.n_bytes));
  // Tensors of the caller's memory are in no file; safetensors files have no limit of their own.
  if (tensor.file >= total_bytes_.size() || archive_.check_decoded_bytes(tensor, kMost)) return {};
  std::uint64_t& total_bytes = total_bytes_[tensor.file];
  if (!checked_add(total_bytes, tensor.n_bytes, total_bytes)) total_bytes = kMost;
  return archive_.check_decoded_bytes(tensor, total_bytes);
}

}  // namespace cfck::model
