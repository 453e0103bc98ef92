#include "model/listed_archive.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/bytes.hpp"
#include "base/run_guarded.hpp"
#include "base/text.hpp"

namespace cfck::model {

std::uint64_t next_archive_id() noexcept {
  // A program and the modules that it loads have this function each: the address keeps their
  // numbers apart.
  static std::atomic<std::uint64_t> last{0};
  return (static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&last)) << 16) + ++last;
}

Error too_many_decoded_bytes(std::uint64_t n_bytes, std::uint64_t max_bytes) {
  return limit_exceeded("the call would read " + std::to_string(n_bytes) +
                        " bytes, and max_decoded_bytes is " + std::to_string(max_bytes) +
                        "; raise that limit to read them");
}

Result<void> ListedArchive::finish_list() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    ArchiveTensor& tensor = tensors_[i];
    tensor.index = i;
    tensor.archive_id = id_;
    if (tensor.sharing == Sharing::kNone) tensor.base = i;
    CFCK_TRY_ASSIGN(tensor.n_elems, n_elems(tensor.shape));
    if (!tensor.hidden) by_name_.push_back(i);
  }
  std::sort(by_name_.begin(), by_name_.end(), [&](std::size_t a, std::size_t b) {
    const int order = tensors_[a].name.compare(tensors_[b].name);
    return order != 0 ? order < 0 : a < b;
  });
  return {};
}

std::pair<const ArchiveTensor*, const ArchiveTensor*> ListedArchive::same_names() const {
  for (std::size_t i = 1; i < by_name_.size(); ++i) {
    const ArchiveTensor& first = tensors_[by_name_[i - 1]];
    const ArchiveTensor& second = tensors_[by_name_[i]];
    if (first.name == second.name) return {&first, &second};
  }
  return {nullptr, nullptr};
}

const ArchiveTensor* ListedArchive::find(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](std::size_t i, std::string_view key) { return tensors_[i].name < key; });
  if (found == by_name_.end() || tensors_[*found].name != name) return nullptr;
  return &tensors_[*found];
}

Result<const ArchiveTensor*> ListedArchive::own(const ArchiveTensor* tensor) const {
  if (tensor != nullptr && tensor->archive_id == id_ && tensor->index < tensors_.size()) {
    const ArchiveTensor& listed = tensors_[tensor->index];
    if (listed.name == tensor->name && listed.n_bytes == tensor->n_bytes) return &listed;
  }
  return run_guarded([&]() -> Result<const ArchiveTensor*> {
    return invalid_argument(
               "the tensor is not one of this archive; look it up in the archive that reads it")
        .in_record(tensor == nullptr ? std::string() : tensor->name);
  });
}

Result<void> ListedArchive::check_elements(const ArchiveTensor& tensor, std::uint64_t first_elem,
                                           std::uint64_t n_elems, MutableBytes out) {
  const auto refuse = [&](const char* message) {
    return run_guarded([&] { return invalid_argument(message).in_record(tensor.name); });
  };
  const std::uint64_t bits = bits_per_element(tensor.dtype);
  if (first_elem > tensor.n_elems || n_elems > tensor.n_elems - first_elem) {
    return refuse("the elements reach beyond the tensor");
  }
  // Eight elements are whole bytes; the bits of a tensor may not fit 64 bits.
  if (first_elem % 8 * bits % 8 != 0 || n_elems % 8 * bits % 8 != 0) {
    return refuse("the elements do not begin and end on whole bytes");
  }
  const std::uint64_t n_bytes = n_elems / 8 * bits + n_elems % 8 * bits / 8;
  return out.size() == n_bytes ? Result<void>()
                               : refuse("the memory for the elements does not have their size");
}

Result<void> ListedArchive::check_decoded_bytes(const ArchiveTensor& tensor,
                                                std::uint64_t n_bytes) const {
  CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
  const std::uint64_t max_bytes = files_[listed->file].max_decoded_bytes;
  if (max_bytes == 0 || n_bytes <= max_bytes) return {};
  return run_guarded([&]() -> Result<void> {
    return too_many_decoded_bytes(n_bytes, max_bytes).in_record(listed->name);
  });
}

Result<std::vector<std::byte>> ListedArchive::attachment(std::string_view name) const {
  return run_guarded([&]() -> Result<std::vector<std::byte>> {
    return not_found("there is no attachment '" + escaped(name) + "'");
  });
}

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
