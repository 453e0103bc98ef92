#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <set>
#include <type_traits>
#include <utility>

#include "libtorch/errors.hpp"
#include "libtorch/optimizers.hpp"
#include "libtorch/save.hpp"

namespace cfck::libtorch {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

CheckpointValue write_module(const std::string& name, const torch::nn::Module& module,
                             TreeWriter& tree) {
  CheckpointContainer dict;
  dict.kind = CheckpointContainer::Kind::kOrderedDict;
  for (const NamedTensor& named : tensors_of(module)) {
    dict.keys.push_back({named.name});
    dict.values.push_back(tree.tensor({name, named.name}, named.tensor, named.is_parameter));
  }
  return tree.add(std::move(dict));
}

at::Tensor rng_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_rng_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

Result<void> check_names(const Job& job) {
  std::set<std::string> names;
  for (const auto& [name, part] : job.parts()) {
    if (!names.insert(name).second) {
      return invalid_argument("two parts of the job are named '" + name + "'");
    }
  }
  return {};
}

Result<CheckpointValue> write_part(const std::string& name, const Job::Part& part,
                                   TreeWriter& tree) {
  return std::visit(
      Overloaded{
          [&](torch::nn::Module* module) -> Result<CheckpointValue> {
            return write_module(name, *module, tree);
          },
          [&](torch::optim::Optimizer* optimizer) -> Result<CheckpointValue> {
            return write_optimizer(name, *optimizer, tree);
          },
          [&](at::Tensor* tensor) -> Result<CheckpointValue> {
            return tree.tensor({name}, *tensor, !is_optimizer_key(name));
          },
          [&](Job::Rng) -> Result<CheckpointValue> {
            return tree.tensor({name}, rng_state(), false);
          },
          [](auto* value) -> Result<CheckpointValue> { return CheckpointValue{*value}; },
      },
      part);
}

class JobReader {
 public:
  JobReader(TreeReader& tree, const LoadOptions& options) : tree_(tree), options_(options) {}

  Result<void> read(const std::string& name, const CheckpointValue& value, const Job::Part& part) {
    return std::visit(
        Overloaded{
            [&](torch::nn::Module* module) { return read_module(name, value, *module); },
            [&](torch::optim::Optimizer* optimizer) {
              return read_optimizer(name, value, *optimizer, tree_);
            },
            [&](at::Tensor* tensor) { return read_tensor(name, value, *tensor); },
            [&](Job::Rng) { return read_rng(name, value); },
            [&](auto* plain) { return read_plain(name, value, *plain); },
        },
        part);
  }

 private:
  Result<void> read_module(const std::string& name, const CheckpointValue& value,
                           torch::nn::Module& module) {
    const CheckpointContainer* const dict = tree_.container(&value);
    if (dict == nullptr || !dict->has_keys()) {
      tree_.misfit(name, "is no state of a module");
      return {};
    }
    std::set<std::string> wanted;
    for (NamedTensor& named : tensors_of(module)) {
      wanted.insert(named.name);
      const ArchiveTensor* const source = tree_.source(Checkpoint::find(*dict, named.name));
      named.name = name + "." + named.name;
      if (source == nullptr) {
        tree_.matching.report.missing.push_back(named.name);
      } else {
        tree_.matching.add(named, *source);
      }
    }
    for (const CheckpointValue& key : dict->keys) {
      const std::string step = checkpoint_step(key);
      if (!wanted.contains(step)) tree_.matching.report.unexpected.push_back(name + "." + step);
    }
    return {};
  }

  Result<void> read_tensor(const std::string& name, const CheckpointValue& value,
                           at::Tensor& tensor) {
    const ArchiveTensor* const source = tree_.source(&value);
    if (source == nullptr) {
      tree_.misfit(name, "is no tensor");
      return {};
    }
    if (tensor.defined()) {
      tree_.matching.add({name, tensor, true}, *source);
      return {};
    }
    CFCK_TRY_ASSIGN(at::Tensor made, tensor_for(tree_.archive, *source));
    tree_.matching.targets.push_back({source, made});
    tree_.commits.push_back(
        [&tensor, made, device = options_.device] { tensor = device ? made.to(*device) : made; });
    return {};
  }

  Result<void> read_rng(const std::string& name, const CheckpointValue& value) {
    const ArchiveTensor* const source = tree_.source(&value);
    if (source == nullptr || source->dtype != DType::kU8 ||
        source->n_bytes != rng_state().nbytes()) {
      tree_.misfit(name, "is no state of libtorch's generator of random numbers");
      return {};
    }
    CFCK_TRY_ASSIGN(const at::Tensor state, tensor_for(tree_.archive, *source));
    tree_.matching.targets.push_back({source, state});
    tree_.commits.push_back([state] { set_rng_state(state); });
    return {};
  }

  template <class T>
  Result<void> read_plain(const std::string& name, const CheckpointValue& value, T& plain) {
    if (const T* const typed = std::get_if<T>(&value.value)) {
      tree_.commits.push_back([&plain, read = *typed] { plain = read; });
      return {};
    }
    // A float that Python wrote may have been an integer: `lr = 1`.
    if constexpr (std::is_same_v<T, double>) {
      if (const auto* whole = std::get_if<std::int64_t>(&value.value)) {
        tree_.commits.push_back([&plain, read = *whole] { plain = static_cast<double>(read); });
        return {};
      }
    }
    tree_.misfit(name, "is a value of another type");
    return {};
  }

  TreeReader& tree_;
  const LoadOptions& options_;
};

Result<Checkpoint> read_skeleton(const TensorArchive& archive) {
  for (const Attachment& attachment : archive.attachments()) {
    if (attachment.name != kCheckpointAttachment) continue;
    if (attachment.decoded_bytes > kMaxCheckpointBytes) {
      return limit_exceeded("the containers of the checkpoint take more than 64 MiB");
    }
    CFCK_TRY_ASSIGN(const auto bytes, archive.attachment(kCheckpointAttachment));
    return parse_checkpoint({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  return invalid_argument(
      "the file has tensors, but no job: load it into a module, or with load_tensors()");
}

}  // namespace

Job& Job::add(std::string name, torch::nn::Module& module) {
  parts_.emplace_back(std::move(name), &module);
  return *this;
}
Job& Job::add(std::string name, torch::optim::Optimizer& optimizer) {
  parts_.emplace_back(std::move(name), &optimizer);
  return *this;
}
Job& Job::add(std::string name, at::Tensor& tensor) {
  parts_.emplace_back(std::move(name), &tensor);
  return *this;
}
Job& Job::add(std::string name, std::int64_t& value) {
  parts_.emplace_back(std::move(name), &value);
  return *this;
}
Job& Job::add(std::string name, double& value) {
  parts_.emplace_back(std::move(name), &value);
  return *this;
}
Job& Job::add(std::string name, bool& value) {
  parts_.emplace_back(std::move(name), &value);
  return *this;
}
Job& Job::add(std::string name, std::string& value) {
  parts_.emplace_back(std::move(name), &value);
  return *this;
}
Job& Job::add_rng(std::string name) {
  parts_.emplace_back(std::move(name), Rng{});
  return *this;
}

Result<WriteSummary> save(const Job& job, const std::string& path, const SaveOptions& options) {
  return run_with_torch([&]() -> Result<WriteSummary> {
    CFCK_TRY(check_names(job));
    TreeWriter tree;
    CheckpointContainer root;
    for (const auto& [name, part] : job.parts()) {
      root.keys.push_back({name});
      CFCK_TRY_ASSIGN(CheckpointValue value, write_part(name, part, tree));
      root.values.push_back(std::move(value));
    }
    CheckpointValue top = tree.add(std::move(root));
    CFCK_TRY_ASSIGN(const std::string skeleton, format_checkpoint(tree.take(std::move(top))));
    return write_file(tree.tensors, skeleton, path, options);
  });
}

Result<LoadReport> load(const Job& job, const std::string& path, const LoadOptions& options) {
  return run_with_torch([&]() -> Result<LoadReport> {
    CFCK_TRY(check_names(job));
    CFCK_TRY_ASSIGN(const auto archive, open_archive(path, options));
    CFCK_TRY_ASSIGN(const Checkpoint checkpoint, read_skeleton(*archive));
    Matching matching;
    TreeReader tree{checkpoint, *archive, matching, {}};
    const CheckpointContainer* const root = tree.container(&checkpoint.root);
    if (root == nullptr || !root->has_keys()) {
      return invalid_argument("the file has a checkpoint that is no dict, so it is no job");
    }
    if (options.device) {
      // Before anything refers to the memory of the modules. Their values stay.
      for (const auto& [name, part] : job.parts()) {
        if (auto* const* module = std::get_if<torch::nn::Module*>(&part)) {
          (*module)->to(*options.device);
        }
      }
    }
    JobReader reader(tree, options);
    std::set<std::string> wanted;
    for (const auto& [name, part] : job.parts()) {
      wanted.insert(name);
      const CheckpointValue* const value = Checkpoint::find(*root, name);
      if (value == nullptr) {
        matching.report.missing.push_back(name);
      } else {
        CFCK_TRY(reader.read(name, *value, part));
      }
    }
    for (const CheckpointValue& key : root->keys) {
      const std::string step = checkpoint_step(key);
      if (!wanted.contains(step)) matching.report.unexpected.push_back(step);
    }
    CFCK_TRY(check(matching, options.strict));
    CFCK_TRY(read_into(*archive, matching.targets));
    for (const auto& commit : tree.commits) commit();
    return std::move(matching.report);
  });
}

}  // namespace cfck::libtorch
