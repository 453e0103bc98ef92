#include "libtorch/load.hpp"

#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>

#include <map>
#include <set>

#include "libtorch/errors.hpp"

namespace cfck::libtorch {
namespace {

constexpr std::size_t kMaxListed = 50;

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMaxListed; ++i) {
    text.append(i == 0 ? "\"" : ", \"").append(names[i]).append("\"");
  }
  if (names.size() > kMaxListed) {
    text += " and " + std::to_string(names.size() - kMaxListed) + " more";
  }
  return text;
}

std::string shape_text(at::IntArrayRef sizes) {
  std::string text = "[";
  for (const std::int64_t size : sizes) {
    text.append(text.size() > 1 ? ", " : "").append(std::to_string(size));
  }
  return text + "]";
}

// Views of F4 cannot be made of pairs of elements: they are read on their own.
bool is_view(const ArchiveTensor& tensor) {
  return tensor.sharing == Sharing::kMemory && tensor.dtype != DType::kF4 &&
         tensor.strides.size() == tensor.shape.size();
}

}  // namespace

Result<std::unique_ptr<TensorArchive>> open_archive(const std::string& path,
                                                    const LoadOptions& options) {
  ArchiveOptions how;
  how.decode = options.decode;
  return TensorArchive::open(path, how);
}

void Matching::add(const NamedTensor& named, const ArchiveTensor& source) {
  if (const auto plain = check_plain(named.tensor); !plain) {
    misfits.push_back(named.name + ": " + plain.error().message);
    return;
  }
  if (at::has_internal_overlap(named.tensor) == at::MemOverlap::Yes) {
    misfits.push_back(named.name +
                      ": elements of the tensor share memory; load into a clone of it");
    return;
  }
  if (has_shape(named.tensor, source)) {
    targets.push_back({&source, named.tensor});
    return;
  }
  const std::vector<std::int64_t> sizes(source.shape.begin(), source.shape.end());
  misfits.push_back("size mismatch for " + named.name + ": the file has the shape " +
                    shape_text(sizes) + ", the module " + shape_text(named.tensor.sizes()));
}

Result<void> check(const Matching& matching, bool strict) {
  std::string text;
  const auto add = [&](const std::string& sentence) { text += "\n  " + sentence; };
  const LoadReport& report = matching.report;
  if (strict && !report.missing.empty()) add("missing in the file: " + listed(report.missing));
  if (strict && !report.unexpected.empty()) {
    add("unexpected in the file: " + listed(report.unexpected));
  }
  for (std::size_t i = 0; i < matching.misfits.size() && i < kMaxListed; ++i) {
    add(matching.misfits[i]);
  }
  if (matching.misfits.size() > kMaxListed) {
    add("and " + std::to_string(matching.misfits.size() - kMaxListed) + " more of these");
  }
  if (text.empty()) return {};
  return invalid_argument("the file does not fit, and nothing was loaded:" + text);
}

Result<LoadReport> load(torch::nn::Module& module, const std::string& path,
                        const LoadOptions& options) {
  return run_with_torch([&]() -> Result<LoadReport> {
    CFCK_TRY_ASSIGN(const auto archive, open_archive(path, options));
    Matching matching;
    std::set<std::string> wanted;
    for (const NamedTensor& named : tensors_of(module)) {
      wanted.insert(named.name);
      const ArchiveTensor* const source = archive->find(named.name);
      if (source == nullptr) {
        matching.report.missing.push_back(named.name);
      } else {
        matching.add(named, *source);
      }
    }
    for (const ArchiveTensor& tensor : archive->tensors()) {
      if (!tensor.hidden && !wanted.contains(tensor.name)) {
        matching.report.unexpected.push_back(tensor.name);
      }
    }
    CFCK_TRY(check(matching, options.strict));
    if (options.device) {
      // New memory: the targets are found again.
      module.to(*options.device);
      std::map<std::string, at::Tensor> moved;
      for (NamedTensor& named : tensors_of(module)) moved[named.name] = named.tensor;
      for (Target& target : matching.targets) target.tensor = moved.at(target.source->name);
    }
    CFCK_TRY(read_into(*archive, matching.targets));
    return std::move(matching.report);
  });
}

Result<Tensors> load_tensors(const std::string& path, const LoadOptions& options) {
  return run_with_torch([&]() -> Result<Tensors> {
    CFCK_TRY_ASSIGN(const auto archive, open_archive(path, options));
    const auto all = archive->tensors();
    std::vector<at::Tensor> memory(all.size());
    std::vector<Target> targets;
    std::uint64_t total_bytes = 0;
    for (const ArchiveTensor& source : all) {
      if (is_view(source)) continue;
      if (source.hidden && source.n_bytes == 0) continue;
      total_bytes += source.n_bytes;
      CFCK_TRY(archive->check_decoded_bytes(source, total_bytes));
      CFCK_TRY_ASSIGN(memory[source.index], tensor_for(*archive, source));
      targets.push_back({&source, memory[source.index]});
    }
    CFCK_TRY(read_into(*archive, targets));
    if (options.device) {
      for (at::Tensor& tensor : memory) {
        if (tensor.defined()) tensor = tensor.to(*options.device);
      }
    }
    Tensors tensors;
    for (const ArchiveTensor& source : all) {
      if (source.hidden) continue;
      at::Tensor tensor = memory[source.index];
      if (is_view(source)) {
        const at::Tensor& base = memory[source.base];
        const std::vector<std::int64_t> sizes(source.shape.begin(), source.shape.end());
        const std::vector<std::int64_t> strides(source.strides.begin(), source.strides.end());
        tensor = base.as_strided(sizes, strides, static_cast<std::int64_t>(source.element_offset));
      }
      tensors.insert(source.name, std::move(tensor));
    }
    return tensors;
  });
}

Result<at::Tensor> load_tensor(const std::string& path, const std::string& name,
                               const LoadOptions& options) {
  return run_with_torch([&]() -> Result<at::Tensor> {
    CFCK_TRY_ASSIGN(const auto archive, open_archive(path, options));
    const ArchiveTensor* const source = archive->find(name);
    if (source == nullptr) return not_found("the file has no tensor of this name").in_record(name);
    CFCK_TRY_ASSIGN(at::Tensor tensor, tensor_for(*archive, *source));
    CFCK_TRY(read_into(*archive, {{source, tensor}}));
    return options.device ? tensor.to(*options.device) : tensor;
  });
}

Result<at::Tensor> load_slice(const std::string& path, const std::string& name,
                              const std::vector<std::uint64_t>& starts,
                              const std::vector<std::uint64_t>& stops, const LoadOptions& options) {
  return run_with_torch([&]() -> Result<at::Tensor> {
    CFCK_TRY_ASSIGN(const auto archive, open_archive(path, options));
    const ArchiveTensor* const source = archive->find(name);
    if (source == nullptr) return not_found("the file has no tensor of this name").in_record(name);
    if (starts.size() != source->shape.size() || stops.size() != source->shape.size()) {
      return invalid_argument("a slice needs a start and a stop for each dimension")
          .in_record(name);
    }
    Shape shape;
    for (std::size_t axis = 0; axis < starts.size(); ++axis) {
      if (starts[axis] > stops[axis] || stops[axis] > source->shape[axis]) {
        return invalid_argument("the slice reaches beyond the tensor").in_record(name);
      }
      shape.push_back(stops[axis] - starts[axis]);
    }
    CFCK_TRY_ASSIGN(const std::uint64_t size, n_bytes(source->dtype, shape));
    CFCK_TRY(archive->check_decoded_bytes(*source, size));
    CFCK_TRY_ASSIGN(const at::ScalarType type, scalar_type_of(source->dtype));
    CFCK_TRY_ASSIGN(const auto sizes, sizes_of(source->dtype, shape));
    at::Tensor tensor = at::empty(sizes, at::TensorOptions().dtype(type));
    const MutableBytes out(static_cast<std::byte*>(tensor.data_ptr()), size);
    CFCK_TRY(archive->read_slice(*source, starts, stops, out));
    return options.device ? tensor.to(*options.device) : tensor;
  });
}

}  // namespace cfck::libtorch
