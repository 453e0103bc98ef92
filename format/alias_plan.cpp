#include "format/alias_plan.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/bytes.hpp"
#include "format/view_overlap.hpp"

namespace cfck::format {
namespace {

// Above this many members, views whose ranges overlap count as sharing.
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
  if (tensor.data == nullptr) {
    return refuse(ErrorCode::kInvalidArgument, "the tensor has elements but no data", tensor);
  }
  const Granule granule = granule_of(tensor.dtype);
  if (granule.elems > 1 && !is_contiguous(tensor.shape, tensor.strides)) {
    return refuse(ErrorCode::kUnsupported,
                  "views of elements below one byte must be contiguous; copy the tensor first",
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
  void plan_group(std::span<const Placed> group);
  void plan_family(std::vector<const Placed*> members);
  void plan_lonely(const Placed& placed);
  void make_alias(const Placed& placed, std::size_t family, std::uint64_t start);

  bool contiguous(const Placed& placed) const {
    const StridedTensor& tensor = tensors_[placed.tensor];
    return is_contiguous(tensor.shape, tensor.strides);
  }

  std::span<const StridedTensor> tensors_;
  AliasPlan plan_;
};

void Planner::make_alias(const Placed& placed, std::size_t family, std::uint64_t start) {
  const StridedTensor& tensor = tensors_[placed.tensor];
  PlannedTensor& planned = plan_.tensors[placed.tensor];
  planned.way = PlannedTensor::Way::kAlias;
  planned.family = family;
  planned.element_offset = placed.view.start - start;
  planned.strides = normalised_strides(tensor.shape, tensor.strides);
}

void Planner::plan_lonely(const Placed& placed) {
  if (contiguous(placed)) {
    return;
  }
  if (placed.n_elems <= placed.view.covered) {
    plan_.tensors[placed.tensor].way = PlannedTensor::Way::kGathered;
    return;
  }
  // Expanded: more elements than memory.
  const StridedTensor& tensor = tensors_[placed.tensor];
  plan_.families.push_back({tensor.dtype, tensor.data, placed.view.covered, std::nullopt});
  make_alias(placed, plan_.families.size() - 1, placed.view.start);
}

void Planner::plan_family(std::vector<const Placed*> members) {
  if (members.size() == 1) {
    return plan_lonely(*members.front());
  }
  std::sort(members.begin(), members.end(),
            [](const Placed* a, const Placed* b) { return a->tensor < b->tensor; });
  const Placed* first = members.front();
  std::uint64_t end = 0;
  for (const Placed* member : members) {
    first = member->view.start < first->view.start ? member : first;
    end = std::max(end, member->view.start + member->view.covered);
  }
  const std::uint64_t start = first->view.start;
  AliasFamily family{first->dtype, tensors_[first->tensor].data, end - start, std::nullopt};
  for (const Placed* member : members) {
    if (member->view.start == start && member->n_elems == end - start && contiguous(*member)) {
      family.base = member->tensor;
      break;
    }
  }
  const std::size_t number = plan_.families.size();
  for (const Placed* member : members) {
    make_alias(*member, number, start);
    if (member->tensor == family.base) {
      plan_.tensors[member->tensor].way = PlannedTensor::Way::kBase;
    }
  }
  plan_.families.push_back(family);
}

// Tensors whose ranges overlap each other, one after the other.
void Planner::plan_group(std::span<const Placed> group) {
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
          (group.size() > kMaxPairwise || may_share(group[a].view, group[b].view))) {
        root[find(b)] = find(a);
      }
    }
  }
  std::vector<std::vector<const Placed*>> members(group.size());
  for (std::size_t i = 0; i < group.size(); ++i) {
    members[find(i)].push_back(&group[i]);
  }
  for (std::vector<const Placed*>& family : members) {
    if (!family.empty()) {
      plan_family(std::move(family));
    }
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
  const auto line = [](const Placed& p) { return std::tie(p.dtype, p.alignment); };
  std::sort(placed.begin(), placed.end(), [&](const Placed& a, const Placed& b) {
    return std::tuple(line(a), a.view.start, a.tensor) <
           std::tuple(line(b), b.view.start, b.tensor);
  });
  for (std::size_t first = 0; first < placed.size();) {
    std::uint64_t end = placed[first].view.start + placed[first].view.covered;
    std::size_t last = first + 1;
    while (last < placed.size() && line(placed[last]) == line(placed[first]) &&
           placed[last].view.start < end) {
      end = std::max(end, placed[last].view.start + placed[last].view.covered);
      ++last;
    }
    plan_group(std::span(placed).subspan(first, last - first));
    first = last;
  }
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
    return Error{ErrorCode::kInvalidArgument,
                 "the tensor has " + std::to_string(shape.size()) + " dimensions but " +
                     std::to_string(strides.size()) + " strides",
                 {},
                 {}};
  }
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) {
    return std::uint64_t{0};
  }
  std::uint64_t covered = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::uint64_t reach = 0;
    if (!checked_mul(shape[i] - 1, strides[i], reach) || !checked_add(covered, reach, covered) ||
        covered >= std::uint64_t{1} << 60) {
      return Error{ErrorCode::kLimitExceeded, "the strides reach beyond any memory", {}, {}};
    }
  }
  return covered;
}

Result<AliasPlan> plan_aliases(std::span<const StridedTensor> tensors) {
  return Planner(tensors).plan();
}

}  // namespace cfck::format
