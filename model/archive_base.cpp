#include "model/archive_base.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/forks/forks.hpp"
#include "base/hashing/hashing.hpp"
#include "base/run_guarded.hpp"
#include "cfck/archive.hpp"
#include "cfck/base.hpp"
#include "format/read/find_base.hpp"
#include "format/read/last_chunk.hpp"

namespace cfck {
namespace {

// Whole leaves of a digest, and whole bytes of every dtype.
constexpr std::uint64_t kPieceBytes = 16 * kLeafBytes;

class ArchiveBase final : public Base {
 public:
  ArchiveBase(std::unique_ptr<const TensorArchive> archive, std::string name)
      : archive_(std::move(archive)), name_(std::move(name)) {
    for (const ArchiveTensor& tensor : archive_->tensors()) {
      tensors_.push_back({tensor.dtype, tensor.shape, tensor.index});
    }
  }

  std::string_view name() const override { return name_; }
  const BaseTensor* find(std::string_view name) const override {
    const ArchiveTensor* const tensor = archive_->find(name);
    return tensor == nullptr ? nullptr : &tensors_[tensor->index];
  }
  std::optional<Digest> known_digest(const BaseTensor& tensor) const override {
    if (const Record* const record = tensor_of(tensor).record) {
      return record->digest;
    }
    const auto digests = digests_.lock();
    const auto found = digests->find(tensor.index);
    return found == digests->end() ? std::nullopt : std::optional(found->second);
  }
  Result<Digest> digest(const BaseTensor& tensor) const override {
    return run_guarded([&]() -> Result<Digest> {
      if (const auto known = known_digest(tensor)) {
        return *known;
      }
      CFCK_TRY_ASSIGN(const Digest digest, digest_of_values(tensor));
      digests_.lock()->emplace(tensor.index, digest);
      return digest;
    });
  }
  Result<void> read(const BaseTensor& tensor, std::uint64_t offset_bytes,
                    MutableBytes out) const override {
    const unsigned bits = bits_per_element(tensor.dtype);
    const ArchiveTensor& stored = owner_of_bytes(tensor);
    format::ChunkedBytes bytes{stored.index, stored.n_bytes, 0};
    if (stored.sharing != Sharing::kMemory && stored.chunk_elems != 0) {
      bytes = format::chunked_bytes(stored.index, stored.n_elems, stored.chunk_elems, bits);
    }
    Result<void> read =
        last_chunk_.read(bytes, offset_bytes, out, [&](std::uint64_t first, MutableBytes to) {
          return archive_->read_elements(stored, first * 8 / bits, to.size() * 8 / bits, to);
        });
    return read ? std::move(read) : format::of_base(std::move(read).error(), name_);
  }
  std::uint64_t chain_length() const override {
    std::uint64_t longest = 0;
    for (const ArchiveFile& file : archive_->files()) {
      longest = std::max(longest, file.reader == nullptr ? 0 : file.reader->chain_length());
    }
    return longest;
  }

 private:
  const ArchiveTensor& tensor_of(const BaseTensor& tensor) const {
    return archive_->tensors()[tensor.index];
  }

  const ArchiveTensor& owner_of_bytes(const BaseTensor& tensor) const {
    const ArchiveTensor& stored = tensor_of(tensor);
    return stored.sharing == Sharing::kBytes ? archive_->tensors()[stored.base] : stored;
  }

  Result<Digest> digest_of_values(const BaseTensor& tensor) const {
    const std::uint64_t n_bytes = tensor_of(tensor).n_bytes;
    DigestBuilder builder(n_bytes);
    std::vector<std::byte> piece(std::min(n_bytes, kPieceBytes));
    for (std::uint64_t at = 0; at < n_bytes; at += piece.size()) {
      const MutableBytes values = MutableBytes(piece).first(std::min(kPieceBytes, n_bytes - at));
      CFCK_TRY(read(tensor, at, values));
      const DigestBuilder::Edges edges = builder.hash_whole_leaves(at, values);
      builder.add_edge(at, edges.head);
      builder.add_edge(at + values.size() - edges.tail.size(), edges.tail);
    }
    return builder.finish();
  }

  const std::unique_ptr<const TensorArchive> archive_;
  const std::string name_;
  std::vector<BaseTensor> tensors_;
  const format::LastChunk last_chunk_;
  mutable PerProcess<std::map<std::size_t, Digest>> digests_;
};

}  // namespace

Result<std::shared_ptr<const Base>> base_of_archive(std::unique_ptr<const TensorArchive> archive,
                                                    std::string name) {
  return run_guarded([&]() -> Result<std::shared_ptr<const Base>> {
    if (archive == nullptr) {
      return invalid_argument("there is no archive to make a base of");
    }
    return std::shared_ptr<const Base>(
        std::make_shared<ArchiveBase>(std::move(archive), std::move(name)));
  });
}

namespace model {

Result<std::shared_ptr<const Base>> open_base(const std::string& path, ArchiveOptions options) {
  options.decode.threads = 1;
  CFCK_TRY_ASSIGN(std::unique_ptr<TensorArchive> archive, TensorArchive::open(path, options));
  const std::filesystem::path given(path);
  const auto files = archive->files();
  const bool is_found_again =
      files.size() == 1 && files[0].reader != nullptr && given == files[0].path;
  return base_of_archive(std::move(archive),
                         is_found_again ? given.filename().string() : std::string());
}

Result<void> check_can_be_base(const Base& base, const Limits& limits) {
  const std::uint64_t most = limits.max_bases;
  if (base.chain_length() < most) {
    return {};
  }
  return limit_exceeded(
      "the base is stored against another, and so on: with this file the chain would be longer "
      "than the " +
      std::to_string(most) +
      " bases that readers open; store the file against an earlier one, or by itself, or make the "
      "base stand alone (cfck compact)");
}

}  // namespace model

}  // namespace cfck
