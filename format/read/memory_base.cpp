// Tensors in memory as a base.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/device.hpp"
#include "base/forks/forks.hpp"
#include "base/hashing/hashing.hpp"
#include "base/run_guarded.hpp"
#include "cfck/base.hpp"

namespace cfck {

Base::~Base() = default;

namespace {

class MemoryBase final : public Base {
 public:
  Result<void> add(const NamedTensor& named) {
    const TensorView& view = named.tensor;
    CFCK_TRY(check_on_host(view.device, named.name));
    CFCK_TRY_ASSIGN(const std::uint64_t expected, n_bytes(view.dtype, view.shape));
    if (view.data.size() != expected) {
      return invalid_argument("a tensor of the base has " + std::to_string(view.data.size()) +
                              " bytes where its shape has " + std::to_string(expected))
          .in_record(named.name);
    }
    const auto [place, is_new] =
        tensors_.try_emplace(named.name, BaseTensor{view.dtype, view.shape, bytes_.size()});
    if (!is_new) {
      return invalid_argument("two tensors of the base have one name").in_record(named.name);
    }
    bytes_.push_back(view.data);
    return {};
  }

  std::string_view name() const override { return {}; }
  const BaseTensor* find(std::string_view name) const override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  std::optional<Digest> known_digest(const BaseTensor& tensor) const override {
    const auto digests = digests_.lock();
    const auto found = digests->find(tensor.index);
    return found == digests->end() ? std::nullopt : std::optional(found->second);
  }
  Result<Digest> digest(const BaseTensor& tensor) const override {
    return run_guarded([&]() -> Result<Digest> {
      if (const auto known = known_digest(tensor)) {
        return *known;
      }
      const Digest digest = digest_of(bytes_[tensor.index]);
      digests_.lock()->emplace(tensor.index, digest);
      return digest;
    });
  }
  Result<void> read(const BaseTensor& tensor, std::uint64_t offset_bytes,
                    MutableBytes out) const override {
    const ByteView bytes = bytes_[tensor.index].subspan(offset_bytes, out.size());
    std::copy(bytes.begin(), bytes.end(), out.begin());
    return {};
  }
  ByteView in_place(const BaseTensor& tensor) const override { return bytes_[tensor.index]; }

 private:
  std::map<std::string, BaseTensor, std::less<>> tensors_;
  std::vector<ByteView> bytes_;
  mutable PerProcess<std::map<std::size_t, Digest>> digests_;
};

}  // namespace

Result<std::shared_ptr<const Base>> base_in_memory(std::span<const NamedTensor> tensors) {
  return run_guarded([&]() -> Result<std::shared_ptr<const Base>> {
    auto base = std::make_shared<MemoryBase>();
    for (const NamedTensor& named : tensors) {
      CFCK_TRY(base->add(named));
    }
    return std::shared_ptr<const Base>(std::move(base));
  });
}

}  // namespace cfck
