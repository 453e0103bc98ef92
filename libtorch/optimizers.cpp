#include "libtorch/optimizers.hpp"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <memory>
#include <optional>
#include <utility>

#include "libtorch/fields.hpp"

namespace cfck::libtorch {
namespace {

namespace optim = torch::optim;

// The fields of each optimizer, in Python's order. Options that Python has and libtorch has not
// either do not change what is computed, or are only taken at one value.

template <class Fields>
void visit(Fields& fields, optim::SGDOptions& options) {
  fields.number("lr", options.lr());
  fields.number("momentum", options.momentum());
  fields.number("dampening", options.dampening());
  fields.number("weight_decay", options.weight_decay());
  fields.flag("nesterov", options.nesterov());
  fields.only_false("maximize");
  fields.ignored_none("foreach");
  fields.ignored_false("differentiable");
  fields.ignored_none("fused");
}
template <class Fields>
void visit(Fields& fields, optim::SGDParamState& state) {
  fields.tensor("momentum_buffer", state.momentum_buffer());
}

template <class Fields, class Options>
void visit_adam(Fields& fields, Options& options, bool decoupled) {
  fields.number("lr", options.lr());
  fields.betas("betas", options.betas());
  fields.number("eps", options.eps());
  fields.number("weight_decay", options.weight_decay());
  fields.flag("amsgrad", options.amsgrad());
  fields.only_false("maximize");
  fields.ignored_none("foreach");
  fields.ignored_false("capturable");
  fields.ignored_false("differentiable");
  fields.ignored_none("fused");
  fields.only("decoupled_weight_decay", decoupled);
}
template <class Fields, class State>
void visit_adam_state(Fields& fields, State& state) {
  fields.step("step", state.step());
  fields.tensor("exp_avg", state.exp_avg());
  fields.tensor("exp_avg_sq", state.exp_avg_sq());
  fields.tensor("max_exp_avg_sq", state.max_exp_avg_sq());
}
template <class Fields>
void visit(Fields& fields, optim::AdamOptions& options) {
  visit_adam(fields, options, false);
}
template <class Fields>
void visit(Fields& fields, optim::AdamParamState& state) {
  visit_adam_state(fields, state);
}
template <class Fields>
void visit(Fields& fields, optim::AdamWOptions& options) {
  visit_adam(fields, options, true);
}
template <class Fields>
void visit(Fields& fields, optim::AdamWParamState& state) {
  visit_adam_state(fields, state);
}

template <class Fields>
void visit(Fields& fields, optim::RMSpropOptions& options) {
  fields.number("lr", options.lr());
  fields.number("momentum", options.momentum());
  fields.number("alpha", options.alpha());
  fields.number("eps", options.eps());
  fields.flag("centered", options.centered());
  fields.number("weight_decay", options.weight_decay());
  fields.ignored_false("capturable");
  fields.ignored_none("foreach");
  fields.only_false("maximize");
  fields.ignored_false("differentiable");
}
template <class Fields>
void visit(Fields& fields, optim::RMSpropParamState& state) {
  fields.step("step", state.step());
  fields.tensor("square_avg", state.square_avg());
  fields.tensor("momentum_buffer", state.momentum_buffer());
  fields.tensor("grad_avg", state.grad_avg());
}

template <class Fields>
void visit(Fields& fields, optim::AdagradOptions& options) {
  fields.number("lr", options.lr());
  fields.number("lr_decay", options.lr_decay());
  fields.number("eps", options.eps());
  fields.number("weight_decay", options.weight_decay());
  fields.number("initial_accumulator_value", options.initial_accumulator_value());
  fields.ignored_none("foreach");
  fields.only_false("maximize");
  fields.ignored_false("differentiable");
  fields.ignored_none("fused");
}
template <class Fields>
void visit(Fields& fields, optim::AdagradParamState& state) {
  fields.step("step", state.step());
  fields.tensor("sum", state.sum());
}

template <class Fields>
void visit(Fields& fields, optim::LBFGSOptions& options) {
  fields.number("lr", options.lr());
  fields.integer("max_iter", options.max_iter());
  fields.optional_integer("max_eval", options.max_eval());
  fields.number("tolerance_grad", options.tolerance_grad());
  fields.number("tolerance_change", options.tolerance_change());
  fields.integer("history_size", options.history_size());
  fields.optional_text("line_search_fn", options.line_search_fn());
  fields.only_false("maximize");
}
template <class Fields>
void visit(Fields& fields, optim::LBFGSParamState& state) {
  fields.integer("func_evals", state.func_evals());
  fields.integer("n_iter", state.n_iter());
  fields.optional_tensors("al", state.al());
  fields.tensor("d", state.d());
  fields.number("t", state.t());
  fields.tensors("old_dirs", state.old_dirs());
  fields.tensors("old_stps", state.old_stps());
  fields.tensors("ro", state.ro());
  fields.tensor("H_diag", state.H_diag());
  fields.tensor("prev_flat_grad", state.prev_flat_grad());
  fields.number("prev_loss", state.prev_loss());
}

// Calls `action` with a default-made object of the options and of the state of this optimizer.
template <class Action>
Result<void> with_kind(const optim::Optimizer& optimizer, Action&& action) {
  const optim::Optimizer* const any = &optimizer;
  if (dynamic_cast<const optim::SGD*>(any) != nullptr) {
    return action(optim::SGDOptions(0.1), optim::SGDParamState());
  }
  if (dynamic_cast<const optim::AdamW*>(any) != nullptr) {
    return action(optim::AdamWOptions(), optim::AdamWParamState());
  }
  if (dynamic_cast<const optim::Adam*>(any) != nullptr) {
    return action(optim::AdamOptions(), optim::AdamParamState());
  }
  if (dynamic_cast<const optim::RMSprop*>(any) != nullptr) {
    return action(optim::RMSpropOptions(), optim::RMSpropParamState());
  }
  if (dynamic_cast<const optim::Adagrad*>(any) != nullptr) {
    return action(optim::AdagradOptions(), optim::AdagradParamState());
  }
  if (dynamic_cast<const optim::LBFGS*>(any) != nullptr) {
    return action(optim::LBFGSOptions(), optim::LBFGSParamState());
  }
  return unsupported(
      "cfck knows the optimizers SGD, Adam, AdamW, RMSprop, Adagrad and LBFGS of libtorch; save "
      "the tensors of another one by name");
}

// State is written of parameters that have some, by their number in the order of the groups.
template <class Options, class State>
CheckpointValue write_as(const std::string& name, const optim::Optimizer& optimizer,
                         TreeWriter& tree) {
  CheckpointContainer states;
  CheckpointContainer groups;
  groups.kind = CheckpointContainer::Kind::kList;
  std::int64_t number = 0;
  for (const optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    CheckpointContainer numbers;
    numbers.kind = CheckpointContainer::Kind::kList;
    for (const at::Tensor& parameter : group.params()) {
      const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
      if (found != optimizer.state().end()) {
        State state = static_cast<const State&>(*found->second);
        FieldWriter fields(tree, {name, "state", std::to_string(number)});
        visit(fields, state);
        states.keys.push_back({number});
        states.values.push_back(fields.take());
      }
      numbers.values.push_back({number++});
    }
    Options options = static_cast<const Options&>(group.options());
    FieldWriter fields(tree, {name, "param_groups"});
    visit(fields, options);
    fields.put("params", tree.add(std::move(numbers)));
    groups.values.push_back(fields.take());
  }
  CheckpointContainer whole;
  whole.keys = {checkpoint_text("state"), checkpoint_text("param_groups")};
  whole.values = {tree.add(std::move(states)), tree.add(std::move(groups))};
  return tree.add(std::move(whole));
}

// Returns the parameters by their numbers in the file; nullopt, with misfits, where groups differ.
std::optional<std::map<std::int64_t, at::Tensor>> parameters_by_number(
    const std::string& name, const CheckpointContainer* groups, const optim::Optimizer& optimizer,
    TreeReader& tree) {
  const auto& own = optimizer.param_groups();
  if (groups == nullptr || groups->values.size() != own.size()) {
    tree.misfit(name, "has " + std::to_string(groups == nullptr ? 0 : groups->values.size()) +
                          " groups of parameters in the file, and " + std::to_string(own.size()) +
                          " in this optimizer");
    return std::nullopt;
  }
  std::map<std::int64_t, at::Tensor> parameters;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const CheckpointContainer* const group = tree.container(&groups->values[i]);
    const CheckpointContainer* const numbers =
        group == nullptr ? nullptr : tree.container(Checkpoint::find(*group, "params"));
    if (numbers == nullptr || numbers->values.size() != own[i].params().size()) {
      tree.misfit(name + ".param_groups." + std::to_string(i),
                  "has another number of parameters than in this optimizer");
      return std::nullopt;
    }
    for (std::size_t j = 0; j < numbers->values.size(); ++j) {
      const auto* number = std::get_if<std::int64_t>(&numbers->values[j].value);
      if (number == nullptr || !parameters.emplace(*number, own[i].params()[j]).second) {
        tree.misfit(name, "has numbers of parameters that are damaged");
        return std::nullopt;
      }
    }
  }
  return parameters;
}

// Tensors of the state have the shape of their parameter, but for counters and LBFGS.
void check_shapes(const std::string& where, const at::Tensor& parameter,
                  std::initializer_list<at::Tensor> tensors, TreeReader& tree) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.sizes() != parameter.sizes()) {
      tree.misfit(where, "has another shape than the parameter");
    }
  }
}
void check_state(const std::string&, const at::Tensor&, optim::LBFGSParamState&, TreeReader&) {}
void check_state(const std::string& where, const at::Tensor& parameter, optim::SGDParamState& state,
                 TreeReader& tree) {
  check_shapes(where, parameter, {state.momentum_buffer()}, tree);
}
void check_state(const std::string& where, const at::Tensor& parameter,
                 optim::RMSpropParamState& state, TreeReader& tree) {
  check_shapes(where, parameter, {state.square_avg(), state.momentum_buffer(), state.grad_avg()},
               tree);
}
void check_state(const std::string& where, const at::Tensor& parameter,
                 optim::AdagradParamState& state, TreeReader& tree) {
  check_shapes(where, parameter, {state.sum()}, tree);
}
template <class AdamState>
void check_state(const std::string& where, const at::Tensor& parameter, AdamState& state,
                 TreeReader& tree) {
  check_shapes(where, parameter, {state.exp_avg(), state.exp_avg_sq(), state.max_exp_avg_sq()},
               tree);
}

// Options by which optimizers differ. Other names may be of a schedule or of the user.
bool is_option_of_a_kind(const std::string& name) {
  constexpr const char* kNames[] = {
      "momentum",       "dampening",    "nesterov", "betas",
      "amsgrad",        "alpha",        "centered", "lr_decay",
      "max_iter",       "history_size", "rho",      "lambd",
      "etas",           "beta2_decay",  "t0",       "initial_accumulator_value",
      "ns_coefficients"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

template <class Options, class State>
Result<void> read_as(const std::string& name, const CheckpointValue& value,
                     optim::Optimizer& optimizer, TreeReader& tree) {
  const CheckpointContainer* const whole = tree.container(&value);
  if (whole == nullptr) {
    tree.misfit(name, "is no state of an optimizer");
    return {};
  }
  const CheckpointContainer* const groups =
      tree.container(Checkpoint::find(*whole, "param_groups"));
  const auto parameters = parameters_by_number(name, groups, optimizer, tree);
  if (!parameters) return {};
  for (std::size_t i = 0; i < groups->values.size(); ++i) {
    auto options = std::make_shared<Options>(
        static_cast<const Options&>(std::as_const(optimizer.param_groups()[i]).options()));
    FieldReader fields(tree, *tree.container(&groups->values[i]),
                       name + ".param_groups." + std::to_string(i), {});
    visit(fields, *options);
    fields.refuse_others(is_option_of_a_kind);
    CFCK_TRY(fields.take());
    tree.commits.push_back([&optimizer, i, options] {
      optimizer.param_groups()[i].set_options(std::make_unique<Options>(*options));
    });
  }
  tree.commits.push_back([&optimizer] { optimizer.state().clear(); });
  const CheckpointContainer* const states = tree.container(Checkpoint::find(*whole, "state"));
  if (states == nullptr || !states->has_keys()) return {};
  for (std::size_t i = 0; i < states->keys.size(); ++i) {
    const auto* number = std::get_if<std::int64_t>(&states->keys[i].value);
    const auto found = number == nullptr ? parameters->end() : parameters->find(*number);
    const CheckpointContainer* const dict = tree.container(&states->values[i]);
    const std::string where = name + ".state." + checkpoint_step(states->keys[i]);
    if (found == parameters->end() || dict == nullptr || !dict->has_keys()) {
      tree.misfit(where, "is no state of a parameter of this optimizer");
      continue;
    }
    auto state = std::make_shared<State>();
    FieldReader fields(tree, *dict, where, found->second);
    visit(fields, *state);
    fields.refuse_others([](const std::string&) { return true; });
    CFCK_TRY(fields.take());
    check_state(where, found->second, *state, tree);
    void* const key = found->second.unsafeGetTensorImpl();
    tree.commits.push_back(
        [&optimizer, key, state] { optimizer.state()[key] = std::make_unique<State>(*state); });
  }
  return {};
}

}  // namespace

Result<CheckpointValue> write_optimizer(const std::string& name, const optim::Optimizer& optimizer,
                                        TreeWriter& tree) {
  CheckpointValue written;
  auto done = with_kind(optimizer, [&](const auto& options, const auto& state) -> Result<void> {
    using Options = std::decay_t<decltype(options)>;
    using State = std::decay_t<decltype(state)>;
    written = write_as<Options, State>(name, optimizer, tree);
    return {};
  });
  if (!done) return std::move(done).error().in_record(name);
  return written;
}

Result<void> read_optimizer(const std::string& name, const CheckpointValue& value,
                            optim::Optimizer& optimizer, TreeReader& tree) {
  return with_kind(optimizer, [&](const auto& options, const auto& state) -> Result<void> {
    using Options = std::decay_t<decltype(options)>;
    using State = std::decay_t<decltype(state)>;
    return read_as<Options, State>(name, value, optimizer, tree);
  });
}

}  // namespace cfck::libtorch
