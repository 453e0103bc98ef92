#include "model/folder/archive_part.hpp"

#include <map>
#include <utility>

#include "base/run_guarded.hpp"
#include "model/listed_archive.hpp"

namespace cfck::model {
namespace {

class ArchivePart final : public ListedArchive {
 public:
  explicit ArchivePart(const TensorArchive& whole) : whole_(whole) {
    files_.assign(whole.files().begin(), whole.files().end());
  }

  Result<void> list(std::span<const std::size_t> indexes) {
    std::map<std::size_t, std::size_t> new_indexes;
    for (const std::size_t index : indexes) {
      new_indexes.emplace(index, tensors_.size());
      tensors_.push_back(whole_.tensors()[index]);
      indexes_.push_back(index);
    }
    for (ArchiveTensor& tensor : tensors_) {
      if (tensor.sharing == Sharing::kNone) continue;
      const auto base = new_indexes.find(tensor.base);
      if (base == new_indexes.end()) {
        tensor.sharing = Sharing::kNone;
      } else {
        tensor.base = base->second;
      }
    }
    return finish_list();
  }

  Result<void> check_decoded_bytes(const ArchiveTensor& tensor,
                                   std::uint64_t n_bytes) const override {
    CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
    return whole_.check_decoded_bytes(in_whole(*listed), n_bytes);
  }

  Result<void> read_many(std::span<const ArchiveRead> reads,
                         const ReadProgress& progress) const override {
    return run_guarded([&]() -> Result<void> {
      std::vector<ArchiveRead> requests;
      for (const ArchiveRead& read : reads) {
        CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(read.tensor));
        requests.push_back({&in_whole(*listed), read.out});
      }
      return whole_.read_many(requests, progress);
    });
  }

  Result<void> read_elements(const ArchiveTensor& tensor, std::uint64_t first_elem,
                             std::uint64_t n_elems, MutableBytes out) const override {
    CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
    return whole_.read_elements(in_whole(*listed), first_elem, n_elems, out);
  }

  Result<void> read_slice(const ArchiveTensor& tensor, std::span<const std::uint64_t> starts,
                          std::span<const std::uint64_t> stops, MutableBytes out) const override {
    CFCK_TRY_ASSIGN(const ArchiveTensor* const listed, own(&tensor));
    return whole_.read_slice(in_whole(*listed), starts, stops, out);
  }

 private:
  // The tensor must be one of tensors_.
  const ArchiveTensor& in_whole(const ArchiveTensor& tensor) const {
    return whole_.tensors()[indexes_[tensor.index]];
  }

  const TensorArchive& whole_;
  std::vector<std::size_t> indexes_;  // in whole_, of each of tensors_
};

}  // namespace

Result<std::unique_ptr<TensorArchive>> part_of(const TensorArchive& archive,
                                               std::span<const std::size_t> indexes) {
  auto part = std::make_unique<ArchivePart>(archive);
  CFCK_TRY(part->list(indexes));
  return std::unique_ptr<TensorArchive>(std::move(part));
}

}  // namespace cfck::model
