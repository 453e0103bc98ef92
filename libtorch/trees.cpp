#include "libtorch/trees.hpp"

#include <utility>

namespace cfck::libtorch {

CheckpointValue TreeWriter::tensor(std::vector<std::string> steps, const at::Tensor& tensor,
                                   bool is_parameter) {
  std::string name = names_.name(steps);
  tensors.push_back({name, tensor, is_parameter});
  return {TensorReference{TensorReference::Kind::kTensor, std::move(name), false}};
}

CheckpointValue TreeWriter::add(CheckpointContainer container) {
  checkpoint_.containers.push_back(std::move(container));
  return {ContainerReference{checkpoint_.containers.size() - 1}};
}

Checkpoint TreeWriter::take(CheckpointValue root) {
  checkpoint_.root = std::move(root);
  return std::move(checkpoint_);
}

const CheckpointContainer* TreeReader::container(const CheckpointValue* value) const {
  return value == nullptr ? nullptr : checkpoint.container(*value);
}

const ArchiveTensor* TreeReader::source(const CheckpointValue* value) const {
  const auto* reference = value == nullptr ? nullptr : std::get_if<TensorReference>(&value->value);
  return reference == nullptr ? nullptr : archive.find(reference->record);
}

void TreeReader::misfit(const std::string& where, const std::string& what) {
  matching.misfits.push_back(where + " " + what);
}

}  // namespace cfck::libtorch
