// The named fields of options and states of optimizers, written into dicts and read from them. Both
// classes have the same functions, so that a list of fields serves both.
#pragma once

#include <ATen/Functions.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "libtorch/trees.hpp"

namespace cfck::libtorch {

inline CheckpointValue checkpoint_text(std::string text) { return {std::move(text)}; }

// Writes options and state into dicts.
class FieldWriter {
 public:
  FieldWriter(TreeWriter& tree, std::vector<std::string> steps)
      : tree_(tree), steps_(std::move(steps)) {}

  void number(const char* name, double& value) { put(name, {value}); }
  void integer(const char* name, std::int64_t& value) { put(name, {value}); }
  void flag(const char* name, bool& value) { put(name, {value}); }
  void betas(const char* name, std::tuple<double, double>& value) {
    CheckpointContainer tuple;
    tuple.kind = CheckpointContainer::Kind::kTuple;
    tuple.values = {{std::get<0>(value)}, {std::get<1>(value)}};
    put(name, tree_.add(std::move(tuple)));
  }
  void optional_integer(const char* name, std::optional<std::int64_t>& value) {
    put(name, value ? CheckpointValue{*value} : CheckpointValue{});
  }
  void optional_text(const char* name, std::optional<std::string>& value) {
    put(name, value ? checkpoint_text(*value) : CheckpointValue{});
  }
  // Options of Python's optimizers that libtorch does not have, at what they are by default there.
  void only_false(const char* name) { put(name, {false}); }
  void ignored_false(const char* name) { put(name, {false}); }
  void ignored_none(const char* name) { put(name, {}); }
  void only(const char* name, bool value) { put(name, {value}); }

  // Python counts steps in a float tensor.
  void step(const char* name, std::int64_t& value) {
    put_tensor(name, at::scalar_tensor(static_cast<double>(value), at::kFloat));
  }
  // Undefined ones are left out, as Python does.
  void tensor(const char* name, at::Tensor& value) {
    if (value.defined()) put_tensor(name, value);
  }
  void tensors(const char* name, std::deque<at::Tensor>& values) {
    put_list(name, {values.begin(), values.end()});
  }
  void optional_tensors(const char* name, std::optional<std::vector<at::Tensor>>& values) {
    if (values) put_list(name, *values);
  }

  CheckpointValue take() { return tree_.add(std::move(dict_)); }
  void put(const char* name, CheckpointValue value) {
    dict_.keys.push_back(checkpoint_text(name));
    dict_.values.push_back(std::move(value));
  }

 private:
  CheckpointValue reference(std::vector<std::string> more, const at::Tensor& value) {
    std::vector<std::string> steps = steps_;
    steps.insert(steps.end(), more.begin(), more.end());
    return tree_.tensor(std::move(steps), value, false);
  }
  void put_tensor(const char* name, const at::Tensor& value) {
    put(name, reference({name}, value));
  }
  void put_list(const char* name, const std::vector<at::Tensor>& values) {
    CheckpointContainer list;
    list.kind = CheckpointContainer::Kind::kList;
    for (std::size_t i = 0; i < values.size(); ++i) {
      list.values.push_back(values[i].defined() ? reference({name, std::to_string(i)}, values[i])
                                                : CheckpointValue{});
    }
    put(name, tree_.add(std::move(list)));
  }

  TreeWriter& tree_;
  std::vector<std::string> steps_;
  CheckpointContainer dict_;
};

// Reads them back. What is not in the file stays as it is.
class FieldReader {
 public:
  // `like`: the parameter whose state is read; state is put on its device.
  FieldReader(TreeReader& tree, const CheckpointContainer& dict, std::string where, at::Tensor like)
      : tree_(tree), dict_(dict), where_(std::move(where)), like_(std::move(like)) {}

  void number(const char* name, double& value) {
    const CheckpointValue* const found = find(name);
    if (found == nullptr) return;
    if (const auto* real = std::get_if<double>(&found->value)) {
      value = *real;
    } else if (const auto* whole = std::get_if<std::int64_t>(&found->value)) {
      value = static_cast<double>(*whole);
    } else {
      misfit(name, "is no number");
    }
  }
  void integer(const char* name, std::int64_t& value) { read_as(name, value, "is no integer"); }
  void flag(const char* name, bool& value) { read_as(name, value, "is neither true nor false"); }
  void betas(const char* name, std::tuple<double, double>& value) {
    const CheckpointValue* const found = find(name);
    if (found == nullptr) return;
    const CheckpointContainer* const pair = tree_.container(found);
    if (pair == nullptr || pair->values.size() != 2) return misfit(name, "is no pair");
    double* const parts[] = {&std::get<0>(value), &std::get<1>(value)};
    for (std::size_t i = 0; i < 2; ++i) {
      const auto* real = std::get_if<double>(&pair->values[i].value);
      const auto* whole = std::get_if<std::int64_t>(&pair->values[i].value);
      if (real == nullptr && whole == nullptr) return misfit(name, "is no pair of numbers");
      *parts[i] = real != nullptr ? *real : static_cast<double>(*whole);
    }
  }
  void optional_integer(const char* name, std::optional<std::int64_t>& value) {
    const CheckpointValue* const found = find(name);
    if (found == nullptr) return;
    value.reset();
    std::int64_t number = 0;
    if (!is_none(*found)) {
      read_as(name, number, "is no integer");
      value = number;
    }
  }
  void optional_text(const char* name, std::optional<std::string>& value) {
    const CheckpointValue* const found = find(name);
    if (found == nullptr) return;
    value.reset();
    std::string text;
    if (!is_none(*found)) {
      read_as(name, text, "is no text");
      value = text;
    }
  }
  void only_false(const char* name) { only(name, false); }
  void only(const char* name, bool wanted) {
    bool value = wanted;
    read_as(name, value, "is neither true nor false");
    if (value != wanted) misfit(name, "has a value that this optimizer of libtorch does not have");
  }
  void ignored_false(const char* name) { (void)find(name); }
  void ignored_none(const char* name) { (void)find(name); }

  void step(const char* name, std::int64_t& value) {
    const CheckpointValue* const found = find(name);
    if (found == nullptr) return;
    if (tree_.source(found) == nullptr) return number_to_step(name, value);
    at::Tensor counter;
    read_tensor(name, *found, counter, false);
    if (!counter.defined()) return;
    if (counter.numel() != 1) return misfit(name, "is no single number");
    tree_.commits.push_back([counter, &value] { value = counter.item<std::int64_t>(); });
  }
  void tensor(const char* name, at::Tensor& value) {
    const CheckpointValue* const found = find(name);
    if (found != nullptr && !is_none(*found)) read_tensor(name, *found, value, true);
  }
  void tensors(const char* name, std::deque<at::Tensor>& values) {
    std::vector<at::Tensor> all;
    if (read_list(name, all)) values.assign(all.begin(), all.end());
  }
  void optional_tensors(const char* name, std::optional<std::vector<at::Tensor>>& values) {
    std::vector<at::Tensor> all;
    if (read_list(name, all)) values = std::move(all);
  }

  // Reports keys of the dict that none of the fields above has and `is_foreign` says yes to: they
  // are of another kind of optimizer.
  template <class IsForeign>
  void refuse_others(IsForeign&& is_foreign) {
    for (const CheckpointValue& key : dict_.keys) {
      const auto* const name = std::get_if<std::string>(&key.value);
      if (name != nullptr && std::find(known_.begin(), known_.end(), *name) == known_.end() &&
          is_foreign(*name)) {
        misfit(name->c_str(), "belongs to another kind of optimizer");
      }
    }
  }

  Result<void> take() { return std::move(failure_); }

 private:
  static bool is_none(const CheckpointValue& value) {
    return std::holds_alternative<std::monostate>(value.value);
  }
  const CheckpointValue* find(const char* name) {
    known_.emplace_back(name);
    return Checkpoint::find(dict_, name);
  }
  void misfit(const char* name, const char* what) { tree_.misfit(where_ + "." + name, what); }
  template <class T>
  void read_as(const char* name, T& value, const char* otherwise) {
    const CheckpointValue* const found = find(name);
    if (found == nullptr) return;
    const T* const typed = std::get_if<T>(&found->value);
    if (typed == nullptr) return misfit(name, otherwise);
    value = *typed;
  }
  void number_to_step(const char* name, std::int64_t& value) {
    double steps = static_cast<double>(value);
    number(name, steps);
    value = static_cast<std::int64_t>(steps);
  }
  bool read_list(const char* name, std::vector<at::Tensor>& all) {
    const CheckpointValue* const found = find(name);
    if (found == nullptr || is_none(*found)) return false;
    const CheckpointContainer* const list = tree_.container(found);
    if (list == nullptr) {
      misfit(name, "is no list");
      return false;
    }
    all.resize(list->values.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!is_none(list->values[i])) read_tensor(name, list->values[i], all[i], true);
    }
    return true;
  }
  // The tensor has its memory at once, and its values later. Numbers become tensors.
  void read_tensor(const char* name, const CheckpointValue& value, at::Tensor& tensor, bool moved) {
    if (!failure_) return;
    const at::Device device = moved ? like_.device() : at::Device(at::kCPU);
    const ArchiveTensor* const source = tree_.source(&value);
    if (source == nullptr) {
      const auto* real = std::get_if<double>(&value.value);
      const auto* whole = std::get_if<std::int64_t>(&value.value);
      if (real == nullptr && whole == nullptr) return misfit(name, "is no tensor");
      tensor = at::scalar_tensor(real != nullptr ? *real : static_cast<double>(*whole),
                                 at::TensorOptions(like_.scalar_type()).device(device));
      return;
    }
    auto made = tensor_for(tree_.archive, *source);
    if (!made) {
      failure_ = std::move(made).error();
      return;
    }
    tensor = device.is_cpu() ? *std::move(made) : made->to(device);
    tree_.matching.targets.push_back({source, tensor});
  }

  TreeReader& tree_;
  const CheckpointContainer& dict_;
  std::string where_;
  at::Tensor like_;
  std::vector<std::string> known_;  // names of fields that were asked for
  Result<void> failure_;
};

}  // namespace cfck::libtorch
