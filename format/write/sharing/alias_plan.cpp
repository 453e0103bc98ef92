#include "format/write/sharing/alias_plan.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "base/bytes.hpp"
#include "format/write/sharing/covered_places.hpp"
#include "format/write/sharing/view_overlap.hpp"

namespace cfck::format {
namespace {

// Above this many members, views whose ranges overlap are taken to share.
constexpr std::size_t kMaxPairwise = 2048;

// The smallest run of whole elements in whole bytes.
struct Granule {
  std::uint64_t bytes;
  std::uint64_t elems;
};

Granule granule_of(DType dtype) {
  const unsigned bits = bits_per_element(dtype);
  const std::uint64_t bytes = std::lcm(bits, 8U) / 8;
  return {bytes, bytes * 8 / bits};
}

// A tensor with elements, as places on a line of elements that all tensors of
// its dtype and alignment have in common.
struct Placed {
  std::size_t tensor;
  DType dtype;
  std::uint64_t alignment;
  std::uint64_t n_elems;
  StridedRange view;
};

Error refuse(ErrorCode code, const char* message, const StridedTensor& tensor) {
  return Error{code, message, tensor.name, {}};
}

Result<std::optional<Placed>> place(std::span<const StridedTensor> tensors, std::size_t i) {
  const StridedTensor& tensor = tensors[i];
  const auto named = [&](Error error) {
    error.record = tensor.name;
    return error;
  };
  Result<std::uint64_t> elems = n_elems(tensor.shape);
  Result<std::uint64_t> bytes = n_bytes(tensor.dtype, tensor.shape);
  Result<std::uint64_t> covered = covered_elems(tensor.shape, tensor.strides);
  if (!elems || !bytes || !covered) {
    return named(!elems ? elems.error() : !bytes ? bytes.error() : covered.error());
  }
  if (*elems == 0) {
    return std::optional<Placed>();
  }
  if (tensor.source != nullptr && !is_contiguous(tensor.shape, tensor.strides)) {
    return refuse(ErrorCode::kInvalidArgument,
                  "a tensor that is read through a source must be contiguous", tensor);
  }
  if (tensor.source != nullptr && tensor.device == Device()) {
    return std::optional<Placed>();  // shares memory with no other
  }
  if (tensor.data == nullptr) {
    return refuse(ErrorCode::kInvalidArgument, "the tensor has elements but no data", tensor);
  }
  const Granule granule = granule_of(tensor.dtype);
  if (granule.elems > 1 && !is_contiguous(tensor.shape, tensor.strides)) {
    return refuse(
        ErrorCode::kUnsupported,
        "views of elements smaller than one byte must be contiguous; copy the tensor first",
        tensor);
  }
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(tensor.data));
  Placed placed{i, tensor.dtype, address % granule.bytes, *elems, {}};
  placed.view.start = address / granule.bytes * granule.elems;
  placed.view.covered = *covered;
  for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    if (tensor.shape[axis] > 1 && tensor.strides[axis] > 0) {
      placed.view.axes.push_back({tensor.shape[axis], tensor.strides[axis]});
    }
  }
  return std::optional(std::move(placed));
}

class Planner {
 public:
  explicit Planner(std::span<const StridedTensor> tensors) : tensors_(tensors) {}

  Result<AliasPlan> plan();

 private:
  using Members = std::vector<const Placed*>;

  void plan_line(const Members& placed);
  void plan_group(std::span<const Placed* const> group);
  void plan_family(Members members);
  void plan_shared(Members members);
  void plan_unfit(const Members& members);
  void plan_lonely(const Placed& placed);
  void add_range(const Members& members, const CoveredPlaces& places);
  void add_compact(const Members& members, CoveredPlaces places);
  void add_copies(const Members& members);
  void make_alias(const Placed& placed, std::size_t family, std::uint64_t element_offset,
                  std::vector<std::uint64_t> strides);

  bool contiguous(const Placed& placed) const {
    const StridedTensor& tensor = tensors_[placed.tensor];
    return is_contiguous(tensor.shape, tensor.strides);
  }

  std::span<const StridedTensor> tensors_;
  AliasPlan plan_;
  std::set<std::size_t> stored_apart_;
  unsigned depth_ = 0;  // how often the family in hand was split
};

void Planner::make_alias(const Placed& placed, std::size_t family, std::uint64_t element_offset,
                         std::vector<std::uint64_t> strides) {
  const StridedTensor& tensor = tensors_[placed.tensor];
  PlannedTensor& planned = plan_.tensors[placed.tensor];
  planned.storage = PlannedTensor::Storage::kAlias;
  planned.family = family;
  planned.element_offset = element_offset;
  planned.strides = normalised_strides(tensor.shape, strides);
}

void Planner::plan_lonely(const Placed& placed) {
  if (contiguous(placed)) {
    return;
  }
  if (placed.n_elems <= placed.view.covered) {
    plan_.tensors[placed.tensor].storage = PlannedTensor::Storage::kGathered;
    return;
  }
  plan_shared({&placed});  // expanded: more elements than memory
}

// All elements from the first to the last are covered.
void Planner::add_range(const Members& members, const CoveredPlaces& places) {
  const Placed* first = members.front();
  for (const Placed* member : members) {
    first = member->view.start < first->view.start ? member : first;
  }
  AliasFamily family;
  family.dtype = first->dtype;
  family.data = tensors_[first->tensor].data;
  family.n_elems = places.n_places();
  for (const Placed* member : members) {
    if (member->view.start == places.start() && member->n_elems == family.n_elems &&
        contiguous(*member)) {
      family.base = member->tensor;
      break;
    }
  }
  for (const Placed* member : members) {
    make_alias(*member, plan_.families.size(), member->view.start - places.start(),
               tensors_[member->tensor].strides);
    if (member->tensor == family.base) {
      plan_.tensors[member->tensor].storage = PlannedTensor::Storage::kMissingBase;
    }
  }
  plan_.families.push_back(std::move(family));
}

// Returns the strides of a view in the covered places; those of axes that do not move stay 0.
std::vector<std::uint64_t> strides_in(const StridedTensor& tensor, const CompactView& compact) {
  std::vector<std::uint64_t> strides(tensor.shape.size());
  std::size_t next = 0;
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    if (tensor.shape[axis] > 1 && tensor.strides[axis] > 0) {
      strides[axis] = compact.strides[next++];
    }
  }
  return strides;
}

// Requires: strides for every member.
void Planner::add_compact(const Members& members, CoveredPlaces places) {
  AliasFamily family;
  const std::size_t number = plan_.families.size();
  for (const Placed* member : members) {
    const StridedTensor& tensor = tensors_[member->tensor];
    const std::optional<CompactView> compact = places.compact(member->view);
    const std::vector<std::uint64_t> strides = strides_in(tensor, *compact);
    make_alias(*member, number, compact->start, strides);
    if (member->view.start == places.start()) {
      family.data = tensor.data;
    }
    if (!family.base && member->n_elems == places.n_places() &&
        is_contiguous(tensor.shape, strides)) {
      family.base = member->tensor;
      plan_.tensors[member->tensor].storage = PlannedTensor::Storage::kMissingBase;
    }
  }
  family.dtype = members.front()->dtype;
  family.n_elems = places.n_places();
  family.places = std::make_shared<const CoveredPlaces>(std::move(places));
  plan_.families.push_back(std::move(family));
}

// Plans views that are equal and have no strides of their own: the first is stored as it reads.
void Planner::add_copies(const Members& members) {
  if (members.size() == 1) {
    plan_.tensors[members.front()->tensor].storage = PlannedTensor::Storage::kGathered;
    return;
  }
  const Placed& first = *members.front();
  const StridedTensor& tensor = tensors_[first.tensor];
  for (const Placed* member : members) {
    make_alias(*member, plan_.families.size(), 0, contiguous_strides(tensor.shape));
  }
  plan_.tensors[first.tensor].storage = PlannedTensor::Storage::kMissingBase;
  plan_.families.push_back({first.dtype, tensor.data, first.n_elems, nullptr, first.tensor});
}

// Ties only views that are equal.
void Planner::plan_unfit(const Members& members) {
  using View = std::tuple<std::uint64_t, Shape, std::vector<std::uint64_t>>;
  std::map<View, Members> same;
  for (const Placed* member : members) {
    const StridedTensor& tensor = tensors_[member->tensor];
    same[View(member->view.start, tensor.shape, normalised_strides(tensor.shape, tensor.strides))]
        .push_back(member);
  }
  if (same.size() == 1) {
    return add_copies(members);
  }
  for (const auto& [view, group] : same) {
    plan_family(group);
  }
}

void Planner::plan_shared(Members members) {
  constexpr unsigned kMaxDepth = 16;  // each split looks at all elements again
  std::sort(members.begin(), members.end(),
            [](const Placed* a, const Placed* b) { return a->tensor < b->tensor; });
  std::vector<const StridedRange*> views;
  for (const Placed* member : members) {
    views.push_back(&member->view);
  }
  std::optional<CoveredPlaces> places =
      CoveredPlaces::of(views, ceil_div(bits_per_element(members.front()->dtype), 8));
  if (places && places->is_dense()) {
    return add_range(members, *places);
  }
  Members fit, unfit;
  for (const Placed* member : members) {
    (places && places->compact(member->view) ? fit : unfit).push_back(member);
  }
  if (unfit.empty()) {
    return add_compact(members, std::move(*places));
  }
  places.reset();
  if (depth_ == kMaxDepth) {
    unfit = members;
    fit.clear();
  }
  if (members.size() > 1) {
    for (const Placed* member : unfit) {
      stored_apart_.insert(member->tensor);
    }
  }
  if (fit.empty()) {
    return plan_unfit(members);
  }
  ++depth_;
  plan_line(fit);
  plan_line(unfit);
  --depth_;
}

void Planner::plan_family(Members members) {
  members.size() == 1 ? plan_lonely(*members.front()) : plan_shared(std::move(members));
}

// Plans tensors whose ranges overlap each other, one after the other.
void Planner::plan_group(std::span<const Placed* const> group) {
  std::vector<std::size_t> root(group.size());
  std::iota(root.begin(), root.end(), std::size_t{0});
  const auto find = [&](std::size_t i) {
    while (root[i] != i) {
      root[i] = root[root[i]];
      i = root[i];
    }
    return i;
  };
  for (std::size_t b = 1; b < group.size(); ++b) {
    for (std::size_t a = group.size() > kMaxPairwise ? b - 1 : 0; a < b; ++a) {
      if (find(a) != find(b) &&
          (group.size() > kMaxPairwise || may_share(group[a]->view, group[b]->view))) {
        root[find(b)] = find(a);
      }
    }
  }
  std::vector<Members> members(group.size());
  for (std::size_t i = 0; i < group.size(); ++i) {
    members[find(i)].push_back(group[i]);
  }
  for (Members& family : members) {
    if (!family.empty()) {
      plan_family(std::move(family));
    }
  }
}

void Planner::plan_line(const Members& placed) {
  Members sorted = placed;
  const auto line = [](const Placed& p) { return std::tie(p.dtype, p.alignment); };
  std::sort(sorted.begin(), sorted.end(), [&](const Placed* a, const Placed* b) {
    return std::tuple(line(*a), a->view.start, a->tensor) <
           std::tuple(line(*b), b->view.start, b->tensor);
  });
  for (std::size_t first = 0; first < sorted.size();) {
    std::uint64_t end = sorted[first]->view.start + sorted[first]->view.covered;
    std::size_t last = first + 1;
    while (last < sorted.size() && line(*sorted[last]) == line(*sorted[first]) &&
           sorted[last]->view.start < end) {
      end = std::max(end, sorted[last]->view.start + sorted[last]->view.covered);
      ++last;
    }
    plan_group(std::span(sorted).subspan(first, last - first));
    first = last;
  }
}

Result<AliasPlan> Planner::plan() {
  plan_.tensors.resize(tensors_.size());
  std::vector<Placed> placed;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    CFCK_TRY_ASSIGN(std::optional<Placed> one, place(tensors_, i));
    if (one) {
      placed.push_back(std::move(*one));
    }
  }
  Members all;
  for (const Placed& one : placed) {
    all.push_back(&one);
  }
  plan_line(all);
  plan_.stored_apart.assign(stored_apart_.begin(), stored_apart_.end());
  return std::move(plan_);
}

}  // namespace

bool is_contiguous(const Shape& shape, std::span<const std::uint64_t> strides) noexcept {
  std::uint64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) {
      return true;
    }
    if (shape[i] != 1 && strides[i] != expected) {
      return false;
    }
    expected *= shape[i];
  }
  return true;
}

std::vector<std::uint64_t> contiguous_strides(const Shape& shape) {
  std::vector<std::uint64_t> strides(shape.size());
  std::uint64_t next = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = next;
    next *= shape[i];
  }
  return strides;
}

std::vector<std::uint64_t> normalised_strides(const Shape& shape,
                                              std::span<const std::uint64_t> strides) {
  std::vector<std::uint64_t> result(strides.begin(), strides.end());
  std::uint64_t next = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) {
      result[i] = next;
    } else {
      next = result[i] * shape[i];
    }
  }
  return result;
}

Result<std::uint64_t> covered_elems(const Shape& shape, std::span<const std::uint64_t> strides) {
  if (strides.size() != shape.size()) {
    return invalid_argument("the tensor has " + std::to_string(shape.size()) + " dimensions but " +
                            std::to_string(strides.size()) + " strides");
  }
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) {
    return std::uint64_t{0};
  }
  std::uint64_t covered = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::uint64_t reach = 0;
    if (!checked_mul(shape[i] - 1, strides[i], reach) || !checked_add(covered, reach, covered) ||
        covered >= std::uint64_t{1} << 60) {
      return limit_exceeded("the strides reach beyond any memory");
    }
  }
  return covered;
}

Result<AliasPlan> plan_aliases(std::span<const StridedTensor> tensors) {
  return Planner(tensors).plan();
}

}  // namespace cfck::format
