// Tensors that share memory: add_tensors and add_alias.
#include <algorithm>

#include "base/bytes.hpp"
#include "base/device.hpp"
#include "base/hashing/hashing.hpp"
#include "format/container/tensor_checks.hpp"
#include "format/write/sharing/alias_plan.hpp"
#include "format/write/sharing/gather_source.hpp"
#include "format/write/writer_impl.hpp"

namespace cfck {
namespace {

using encode::TensorChoice;
using format::PlannedTensor;

// Digests are taken over pieces of this many bytes: whole leaves.
constexpr std::uint64_t kDigestPieceBytes = 16 * kLeafBytes;

// A source that owns its bytes.
class OwnedSource final : public ByteSource {
 public:
  explicit OwnedSource(std::vector<std::byte> bytes) : bytes_(std::move(bytes)), view_(bytes_) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    return view_.read_at(offset_bytes, out);
  }
  ByteView mapped() const override { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  MemorySource view_;
};

std::uint64_t bytes_of_elems(DType dtype, std::uint64_t n) {
  return n / 8 * bits_per_element(dtype) + ceil_div(n % 8 * bits_per_element(dtype), 8);
}

std::unique_ptr<ByteSource> source_in_memory_of(const StridedTensor& tensor) {
  if (format::is_contiguous(tensor.shape, tensor.strides)) {
    const Result<std::uint64_t> total = n_bytes(tensor.dtype, tensor.shape);
    return std::make_unique<MemorySource>(ByteView(tensor.data, total ? *total : 0));
  }
  return std::make_unique<format::GatherSource>(tensor.data, tensor.dtype, tensor.shape,
                                                tensor.strides);
}

TensorChoice shared_without_loss() {
  return encode::without_loss(CodecChoice::kAuto, LosslessReason::kSharedMemory);
}

// The choice for shared memory: lossy if all its tensors agree on it and none sees only a part,
// whose digest would need the decoded values.
TensorChoice choice_for(std::span<const TensorChoice* const> members, const TensorChoice& base,
                        bool all_whole) {
  const bool agree = std::all_of(members.begin(), members.end(), [&](const TensorChoice* member) {
    return member->stores_as(base);
  });
  if (!base.is_lossy() || (agree && all_whole)) {
    return base;
  }
  return shared_without_loss();
}

// True if a tensor has all elements of its family's memory, in their order.
bool is_whole(const StridedTensor& tensor, const PlannedTensor& planned,
              std::uint64_t n_base_elems) {
  if (planned.storage == PlannedTensor::Storage::kMissingBase) {
    return true;
  }
  const Result<std::uint64_t> n = n_elems(tensor.shape);
  return n && *n == n_base_elems && format::is_contiguous(tensor.shape, planned.strides);
}

std::unique_ptr<ByteSource> source_in_memory_of(const format::AliasFamily& family) {
  if (family.places) {
    return std::make_unique<format::CompactSource>(family.places, family.data,
                                                   bits_per_element(family.dtype) / 8);
  }
  return std::make_unique<MemorySource>(
      ByteView(family.data, bytes_of_elems(family.dtype, family.n_elems)));
}

Result<void> check_source(const StridedTensor& tensor) {
  CFCK_TRY(format::checked_bytes(tensor.name, {tensor.dtype, tensor.shape, tensor.source, 0}));
  return {};
}

// Where memory is not the host's, shared values are read through the tensor that has all of them.
Result<void> check_bases(std::span<const StridedTensor> tensors, const format::AliasPlan& plan) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const PlannedTensor& planned = plan.tensors[i];
    if (tensors[i].source != nullptr && planned.storage == PlannedTensor::Storage::kAlias &&
        !plan.families[planned.family].base) {
      return unsupported(
                 "the tensor shares memory of a device with others, and none of them has all of "
                 "it; copy them to the host first")
          .in_record(tensors[i].name);
    }
  }
  return {};
}

// The memory of a family, and the choice for it; its record is not known yet.
struct Family {
  std::vector<const TensorChoice*> choices;
  bool all_whole = true;
};

}  // namespace

const ByteSource& Writer::Impl::source_of(const StridedTensor& tensor) {
  return tensor.source != nullptr ? *tensor.source : keep(source_in_memory_of(tensor));
}

// Numbers the records that will store the memory of each family, before the first
// is pushed: a base may come after its aliases.
std::vector<Writer::Impl::SharedMemory> Writer::Impl::plan_memory(
    std::span<const StridedTensor> tensors, const format::AliasPlan& plan,
    std::span<const TensorChoice> choices) const {
  std::vector<SharedMemory> memory(plan.families.size());
  std::vector<Family> families(plan.families.size());
  std::vector<bool> numbered(plan.families.size());
  auto number = static_cast<std::uint32_t>(layout.index().records.size());
  for (std::size_t i = 0; i < tensors.size(); ++i, ++number) {
    const PlannedTensor& planned = plan.tensors[i];
    if (planned.storage == PlannedTensor::Storage::kAlone ||
        planned.storage == PlannedTensor::Storage::kGathered) {
      continue;
    }
    const format::AliasFamily& family = plan.families[planned.family];
    if (planned.storage == PlannedTensor::Storage::kMissingBase) {
      memory[planned.family].record = number;
    } else if (!family.base && !numbered[planned.family]) {
      memory[planned.family].record = number++;
      numbered[planned.family] = true;
    }
    families[planned.family].choices.push_back(&choices[i]);
    families[planned.family].all_whole &= is_whole(tensors[i], planned, family.n_elems);
  }
  for (std::size_t i = 0; i < families.size(); ++i) {
    const std::optional<std::size_t> base = plan.families[i].base;
    memory[i].n_elems = plan.families[i].n_elems;
    memory[i].choice.codec = encode::lossless_codec(options.codec);
    if (base) {
      memory[i].choice = choice_for(families[i].choices, choices[*base], families[i].all_whole);
    }
  }
  return memory;
}

Result<void> Writer::Impl::add_tensors(std::span<const StridedTensor> tensors) {
  CFCK_TRY_ASSIGN(const format::AliasPlan plan, format::plan_aliases(tensors));
  std::vector<TensorChoice> choices(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const StridedTensor& tensor = tensors[i];
    CFCK_TRY(tensor.source == nullptr ? check_on_host(tensor.device, tensor.name)
                                      : check_source(tensor));
    CFCK_TRY_ASSIGN(choices[i],
                    tensor.options
                        ? rules.choose(tensor.name, tensor.dtype, tensor.shape, *tensor.options)
                        : rules.choose(tensor.name, tensor.dtype, tensor.shape));
  }
  CFCK_TRY(check_bases(tensors, plan));
  if (device != nullptr) {
    CFCK_TRY(look_at_sources(tensors));
  }
  const std::vector<SharedMemory> memory = plan_memory(tensors, plan, choices);
  CFCK_TRY(remember_bases(tensors, plan, memory));
  for (const std::size_t i : plan.stored_apart) {
    stored_apart.push_back(tensors[i].name);
  }
  std::vector<bool> stored(plan.families.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const PlannedTensor& planned = plan.tensors[i];
    const bool in_family = planned.storage == PlannedTensor::Storage::kMissingBase ||
                           planned.storage == PlannedTensor::Storage::kAlias;
    if (in_family && !plan.families[planned.family].base && !stored[planned.family]) {
      const format::AliasFamily& family = plan.families[planned.family];
      const ByteSource& source = keep(source_in_memory_of(family));
      CFCK_TRY(push_hidden(family.dtype, {family.n_elems},
                           Place{&source, 0, memory[planned.family].choice}));
      stored[planned.family] = true;
    }
    CFCK_TRY(add_planned(tensors[i], planned, choices[i],
                         in_family ? memory[planned.family] : SharedMemory()));
  }
  return {};
}

// Tensors equal to a base become its duplicates, those before it too: a base is never one itself,
// since its aliases must not be tied to a stranger.
Result<void> Writer::Impl::remember_bases(std::span<const StridedTensor> tensors,
                                          const format::AliasPlan& plan,
                                          std::span<const SharedMemory> memory) {
  for (std::size_t i = 0; i < plan.families.size(); ++i) {
    if (!plan.families[i].base) {
      continue;
    }
    const StridedTensor& base = tensors[*plan.families[i].base];
    encode::EncodePlan twin;
    twin.dtype = base.dtype;
    twin.choice = memory[i].choice;
    CFCK_TRY_ASSIGN(twin.geometry.n_bytes, n_bytes(base.dtype, base.shape));
    twin.shape = base.shape;
    twin.source = &source_of(base);
    twin.on_device = known_on_device(twin);
    Result<std::optional<std::uint32_t>> known =
        duplicates.find_or_add(memory[i].record, base.shape, twin);
    if (!known) {
      return std::move(known).error();
    }
  }
  return {};
}

Result<void> Writer::Impl::add_planned(const StridedTensor& tensor, const PlannedTensor& planned,
                                       const TensorChoice& choice, const SharedMemory& memory) {
  const ByteSource& source = source_of(tensor);
  switch (planned.storage) {
    case PlannedTensor::Storage::kAlone:
    case PlannedTensor::Storage::kGathered:
      return add_source(tensor.name, TensorSource{tensor.dtype, tensor.shape, &source, 0}, choice);
    case PlannedTensor::Storage::kMissingBase: {
      CFCK_TRY(check_name(tensor.name));
      CFCK_TRY_ASSIGN(const std::uint32_t number,
                      push(tensor.name, false, tensor.dtype, tensor.shape));
      align_chunks(number, memory.choice);
      return encode(number, Place{&source, 0, memory.choice});
    }
    case PlannedTensor::Storage::kAlias: {
      CFCK_TRY(check_name(tensor.name));
      Place place{&source, 0, choice};
      if (choice.is_lossy() && !memory.choice.is_lossy()) {
        place.choice = shared_without_loss();
      }
      return push_alias(tensor.name, memory.record, planned.element_offset, tensor.shape,
                        planned.strides, is_whole(tensor, planned, memory.n_elems), tensor.dtype,
                        place);
    }
  }
  return {};
}

Result<std::uint32_t> Writer::Impl::push_hidden(DType dtype, const Shape& shape,
                                                const Place& place) {
  CFCK_TRY_ASSIGN(const std::uint32_t number, push({}, true, dtype, shape));
  CFCK_TRY(encode(number, place));
  return number;
}

Result<void> Writer::Impl::push_alias(std::string_view name, std::uint32_t base,
                                      std::uint64_t element_offset, const Shape& shape,
                                      std::vector<std::uint64_t> strides, bool is_whole,
                                      DType dtype, const Place& place) {
  CFCK_TRY_ASSIGN(const std::uint32_t number, push(name, false, dtype, shape));
  Record& alias = record(number);
  alias.kind = RecordKind::kAlias;
  alias.base = base;
  alias.element_offset = element_offset;
  alias.strides = std::move(strides);
  if (is_whole) {
    share(number, place.choice);
    return encoder.progress().advance(record(number).name, alias.decoded_bytes);
  }
  if (place.choice.reason) {
    encoder.kept_lossless().emplace(number, *place.choice.reason);
  }
  encode::EncodePlan plan = plan_for(number, place);
  codec::ChunkGeometry& geometry = plan.geometry;
  geometry.chunk_bytes = kDigestPieceBytes;
  geometry.n_chunks = ceil_div(geometry.n_bytes, kDigestPieceBytes);
  return encoder.digest_only(number, std::move(plan));
}

Result<void> Writer::Impl::add_base(std::string_view name, const TensorSource& tensor,
                                    std::span<const BaseView> views) {
  CFCK_TRY_ASSIGN(TensorChoice choice, rules.choose(name, tensor.dtype, tensor.shape));
  if (choice.is_lossy()) {
    for (const BaseView& view : views) {
      CFCK_TRY_ASSIGN(const TensorChoice other, rules.choose(view.name, tensor.dtype, *view.shape));
      if (view.is_whole && other.stores_as(choice)) continue;
      choice = shared_without_loss();
      break;
    }
  }
  return add_source(name, tensor, choice);
}

Result<void> WriterAccess::add_base(Writer& writer, std::string_view name,
                                    const TensorSource& tensor, std::span<const BaseView> views) {
  return call(writer, [&](Writer::Impl& impl) { return impl.add_base(name, tensor, views); });
}

// Follows an alias to the record that holds the bytes; a base that was stored as a duplicate gets a
// hidden record of its own, so that it can be tied.
Result<std::uint32_t> Writer::Impl::storage_of(std::uint32_t number,
                                               std::uint64_t& element_offset) {
  const Record& entry = record(number);
  if (entry.kind == RecordKind::kAlias) {
    if (!format::is_contiguous(entry.shape, entry.strides)) {
      return invalid_argument("the base is a view with gaps; use the record that it is a view of")
          .in_record(entry.name);
    }
    element_offset += entry.element_offset;
    return entry.base;
  }
  if (entry.kind != RecordKind::kDuplicate) {
    return number;
  }
  const Place place = places.at(number);
  const Shape shape = entry.shape;
  CFCK_TRY_ASSIGN(const std::uint32_t hidden, push_hidden(entry.dtype, shape, place));
  Record& tied = record(number);
  tied.kind = RecordKind::kAlias;
  tied.base = hidden;
  tied.strides = format::contiguous_strides(shape);
  return hidden;
}

// Returns a source of the view's contiguous bytes, which start at `offset_bytes` of it.
Result<const ByteSource*> Writer::Impl::view_source(std::uint32_t base,
                                                    std::uint64_t element_offset,
                                                    const Shape& shape,
                                                    const std::vector<std::uint64_t>& strides,
                                                    std::uint64_t& offset_bytes) {
  const DType dtype = record(base).dtype;
  const Place place = places.at(base);
  if (element_offset * bits_per_element(dtype) % 8 != 0) {
    return unsupported("the view does not start at a byte boundary");
  }
  offset_bytes = place.offset_bytes + element_offset * bits_per_element(dtype) / 8;
  if (format::is_contiguous(shape, strides)) {
    return place.source;
  }
  if (bits_per_element(dtype) < 8) {
    return unsupported("views of elements smaller than one byte must be contiguous");
  }
  const ByteView mapped = place.source->mapped();
  const std::byte* data = nullptr;
  if (!mapped.empty()) {
    data = mapped.data() + offset_bytes;
  } else {
    CFCK_TRY_ASSIGN(const std::uint64_t covered, format::covered_elems(shape, strides));
    std::vector<std::byte> copy(bytes_of_elems(dtype, covered));
    CFCK_TRY(place.source->read_at(offset_bytes, copy));
    data = keep(std::make_unique<OwnedSource>(std::move(copy))).mapped().data();
  }
  offset_bytes = 0;
  return &keep(std::make_unique<format::GatherSource>(data, dtype, shape, strides));
}

Result<void> Writer::Impl::add_alias(std::string_view name, std::string_view base,
                                     std::uint64_t element_offset, const Shape& shape,
                                     std::span<const std::uint64_t> strides) {
  CFCK_TRY(check_name(name));
  const auto refuse = [&](ErrorCode code, const char* message) {
    return Error{code, message, std::string(name), {}};
  };
  const auto found = names.find(std::string(base));
  if (found == names.end()) {
    return not_found("no record with this name was added").in_record(std::string(base));
  }
  const DType dtype = record(found->second).dtype;
  CFCK_TRY_ASSIGN(const std::uint64_t covered, format::covered_elems(shape, strides));
  CFCK_TRY(n_bytes(dtype, shape));
  if (covered == 0) {
    return add_source(name, TensorSource{dtype, shape, nullptr, 0});
  }
  const std::uint64_t base_elems = record(found->second).n_elems;
  if (covered > base_elems || element_offset > base_elems - covered) {
    return refuse(ErrorCode::kInvalidArgument, "the view reaches beyond its base");
  }
  CFCK_TRY_ASSIGN(const std::uint32_t storage, storage_of(found->second, element_offset));
  if (!places.contains(storage)) {
    return refuse(ErrorCode::kInvalidArgument, "the base is not one of this writer's tensors");
  }
  std::vector<std::uint64_t> normalised = format::normalised_strides(shape, strides);
  const bool is_whole =
      format::is_contiguous(shape, normalised) && covered == record(storage).n_elems;
  CFCK_TRY_ASSIGN(TensorChoice choice, rules.choose(name, dtype, shape));
  const TensorChoice& stored = places.at(storage).choice;
  if (stored.is_lossy() && !(is_whole && choice.stores_as(stored))) {
    return refuse(
        ErrorCode::kInvalidArgument,
        "the base is stored with a maximum error or target: only the whole of it can be tied, to "
        "a name with the same one; add the base lossless");
  }
  if (choice.is_lossy() && !stored.is_lossy()) {
    choice = shared_without_loss();
  }
  Place place{nullptr, 0, choice};
  CFCK_TRY_ASSIGN(place.source,
                  view_source(storage, element_offset, shape, normalised, place.offset_bytes));
  return push_alias(name, storage, element_offset, shape, std::move(normalised), is_whole, dtype,
                    place);
}

Result<bool> Writer::Impl::tie(std::string_view name, std::string_view base) {
  const auto found = names.find(std::string(base));
  if (found == names.end()) {
    return not_found("no record with this name was added").in_record(std::string(base));
  }
  if (!check_name(name)) return false;
  const Record& entry = record(found->second);
  const Shape shape = entry.shape;
  const std::uint32_t storage = entry.kind == RecordKind::kAlias ? entry.base : found->second;
  CFCK_TRY_ASSIGN(const TensorChoice choice, rules.choose(name, entry.dtype, shape));
  const auto place = places.find(storage);
  if (place != places.end() && place->second.choice.is_lossy() &&
      !choice.stores_as(place->second.choice)) {
    return false;
  }
  CFCK_TRY(add_alias(name, base, 0, shape, format::contiguous_strides(shape)));
  return true;
}

}  // namespace cfck
