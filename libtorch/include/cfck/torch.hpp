// Modules, tensors and training jobs of libtorch, the C++ frontend of PyTorch.
//
//   cfck::libtorch::save(*net, "net.cfck").value();
//   cfck::libtorch::load(*net, "net.cfck").value();
//
// Call them by their full names: torch::save is found by unqualified calls as well. Names of
// tensors are those of state_dict() in Python, so files go both ways. Functions may be called from
// several threads, as long as none of them changes the tensors of another. None throws.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cfck/cfck.hpp"

namespace cfck::libtorch {

using Tensors = torch::OrderedDict<std::string, at::Tensor>;

struct SaveOptions {
  // Tensors that are no parameters (buffers, state of optimizers) stay lossless, whatever plain
  // error or target is given here.
  EncodeOptions encode = {};
  Metadata metadata = {};
  bool replace_existing = true;
  // Replaces also a file that others of the folder are stored against (dependents_of() in
  // cfck/base.hpp), which cannot be read without it; else that is kExists.
  bool replace_base = false;
};

struct LoadOptions {
  // Names of the module or job that the file does not have, and the reverse, are errors.
  bool strict = true;
  // Modules are moved there first, and tensors created there. nullopt: modules stay where they are,
  // and tensors are on the CPU. Tensors of other devices are decoded on the CPU and copied.
  std::optional<torch::Device> device = std::nullopt;
  DecodeOptions decode = {};
};

// What was loaded without `strict`.
struct LoadReport {
  std::vector<std::string> missing;     // names of the module that the file does not have
  std::vector<std::string> unexpected;  // names of the file that the module does not have
};

// Saves all parameters and buffers. Tensors that share memory are stored once and loaded tied.
// The file appears complete under its name, or not at all. Errors: kUnsupported for tensors that
// are no plain memory (sparse, quantised, on device meta) and for complex128, with their names;
// kInvalidArgument for undefined tensors in a map; those of Writer and AtomicFile.
Result<WriteSummary> save(const torch::nn::Module& module, const std::string& path,
                          const SaveOptions& options = {});
Result<WriteSummary> save(const Tensors& tensors, const std::string& path,
                          const SaveOptions& options = {});
Result<WriteSummary> save(const std::map<std::string, at::Tensor>& tensors, const std::string& path,
                          const SaveOptions& options = {});

// Loads parameters and buffers into the memory of the module, from a file or folder of any format
// that TensorArchive reads. Dtypes are converted as copy_() does. Nothing is changed where names or
// shapes do not fit. Errors: kInvalidArgument, with all names that are missing or unexpected and
// all shapes that differ; those of TensorArchive. If decoding fails half-way, because the file is
// damaged, some tensors are new and others are not.
Result<LoadReport> load(torch::nn::Module& module, const std::string& path,
                        const LoadOptions& options = {});

// Returns all tensors, those that share memory tied.
Result<Tensors> load_tensors(const std::string& path, const LoadOptions& options = {});
// Returns one tensor. Error: kNotFound.
Result<at::Tensor> load_tensor(const std::string& path, const std::string& name,
                               const LoadOptions& options = {});
// Returns the box starts[i] <= index i < stops[i], and decodes only the chunks that it needs.
Result<at::Tensor> load_slice(const std::string& path, const std::string& name,
                              const std::vector<std::uint64_t>& starts,
                              const std::vector<std::uint64_t>& stops,
                              const LoadOptions& options = {});

// The parts of a training job, by name. Refers to them: they must outlive it.
//
//   cfck::libtorch::Job job;
//   job.add("model", *net).add("optimizer", adam).add("step", step).add_rng("rng");
//   save(job, "run.cfck").value();
//   load(job, "run.cfck").value();
//
// The file is a checkpoint as cfck.torch.save_checkpoint writes it in Python (spec/checkpoint.md),
// {"model": state_dict, "optimizer": state_dict, "step": 3, "rng": tensor}: load_checkpoint returns
// that, and load() reads what save_checkpoint or torch.save wrote.
class Job {
 public:
  Job& add(std::string name, torch::nn::Module& module);
  // SGD, Adam, AdamW, RMSprop, Adagrad and LBFGS, with the layout of their state_dict() in Python.
  Job& add(std::string name, torch::optim::Optimizer& optimizer);
  Job& add(std::string name, at::Tensor& tensor);
  Job& add(std::string name, std::int64_t& value);
  Job& add(std::string name, double& value);
  Job& add(std::string name, bool& value);
  Job& add(std::string name, std::string& value);
  // The state of the CPU's default generator, as torch.get_rng_state() returns it.
  Job& add_rng(std::string name);

  struct Rng {};
  using Part = std::variant<torch::nn::Module*, torch::optim::Optimizer*, at::Tensor*,
                            std::int64_t*, double*, bool*, std::string*, Rng>;
  const std::vector<std::pair<std::string, Part>>& parts() const { return parts_; }

 private:
  std::vector<std::pair<std::string, Part>> parts_;
};

// Errors: as for modules; kInvalidArgument for two parts of one name; kUnsupported for optimizers
// of other kinds.
Result<WriteSummary> save(const Job& job, const std::string& path, const SaveOptions& options = {});
// Restores all parts. Errors: as for modules; kInvalidArgument also for a value of another type, an
// optimizer with other groups of parameters, and options of Python's optimizers that libtorch does
// not have (maximize). Nothing is changed then.
Result<LoadReport> load(const Job& job, const std::string& path, const LoadOptions& options = {});

}  // namespace cfck::libtorch
