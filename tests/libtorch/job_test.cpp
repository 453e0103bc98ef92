// Training jobs of libtorch that go on where they stopped, bit for bit.
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cfck/checkpoint.hpp>
#include <cfck/torch.hpp>
#include <functional>

#include "small_net.hpp"

namespace cfck::test {
namespace {

namespace optim = torch::optim;
using libtorch::Job;
using libtorch::load;
using libtorch::save;

using Make = std::function<std::unique_ptr<optim::Optimizer>(std::vector<at::Tensor>)>;

struct Training {
  explicit Training(const Make& make)
      : net(torch::nn::Linear(6, 10), torch::nn::Dropout(0.3), torch::nn::Tanh(),
            torch::nn::Linear(10, 2)),
        optimizer(make(net->parameters())) {}

  Job job() {
    Job parts;
    parts.add("model", *net).add("optimizer", *optimizer).add("step", step).add("rate", rate);
    return parts.add("note", note).add("done", done).add("mean", mean).add_rng("rng");
  }
  void train(int n_steps) {
    for (int i = 0; i < n_steps; ++i) {
      const auto x = torch::randn({16, 6});
      optimizer->step([&] {
        optimizer->zero_grad();
        auto loss = net->forward(x).square().mean();
        loss.backward();
        return loss;
      });
      ++step;
      mean = x.mean(0);
    }
  }

  torch::nn::Sequential net;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::int64_t step = 0;
  double rate = 0.5;
  std::string note = "\u00fc";
  bool done = false;
  at::Tensor mean;
};

template <class Optimizer, class Options>
Make maker(Options options) {
  return [options](std::vector<at::Tensor> parameters) {
    return std::make_unique<Optimizer>(std::move(parameters), options);
  };
}

std::map<std::string, Make> makers() {
  return {
      {"sgd", maker<optim::SGD>(optim::SGDOptions(0.05))},
      {"momentum", maker<optim::SGD>(optim::SGDOptions(0.05).momentum(0.9).nesterov(true))},
      {"adam", maker<optim::Adam>(optim::AdamOptions(0.01).amsgrad(true))},
      {"adamw", maker<optim::AdamW>(optim::AdamWOptions(0.01).betas({0.8, 0.95}))},
      {"rmsprop", maker<optim::RMSprop>(optim::RMSpropOptions(0.01).momentum(0.5).centered(true))},
      {"adagrad", maker<optim::Adagrad>(optim::AdagradOptions(0.02).lr_decay(0.01))},
      {"lbfgs", maker<optim::LBFGS>(optim::LBFGSOptions(0.1).max_iter(3))},
  };
}

TEST(LibtorchJobs, GoOnWhereTheyStopped) {
  const Folder folder;
  for (const auto& [name, make] : makers()) {
    SCOPED_TRACE(name);
    torch::manual_seed(5);
    Training whole(make);
    whole.train(3);
    whole.rate = 0.125;
    whole.done = true;
    const auto saved = save(whole.job(), folder / (name + ".cfck"));
    ASSERT_TRUE(saved) << saved.error().to_string();
    whole.train(4);
    const auto after = torch::randn({3});
    torch::manual_seed(77);
    Training resumed(make);
    resumed.train(1);  // state that has to be replaced
    const auto loaded = load(resumed.job(), folder / (name + ".cfck"));
    ASSERT_TRUE(loaded) << loaded.error().to_string();
    EXPECT_EQ(resumed.step, 3);
    EXPECT_EQ(resumed.rate, 0.125);
    EXPECT_TRUE(resumed.done);
    resumed.train(4);
    EXPECT_TRUE(same_bits(torch::randn({3}), after));
    EXPECT_TRUE(same_bits(resumed.mean, whole.mean));
    const auto one = whole.net->parameters();
    const auto other = resumed.net->parameters();
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(one[i], other[i])) << i;
  }
}

TEST(LibtorchJobs, OptionsComeWithThem) {
  const Folder folder;
  const Make slow = maker<optim::Adam>(optim::AdamOptions(0.001).eps(1e-6));
  const Make fast = maker<optim::Adam>(optim::AdamOptions(0.1));
  Training one(slow);
  one.train(1);
  ASSERT_TRUE(save(one.job(), folder / "a.cfck"));
  Training other(fast);
  ASSERT_TRUE(load(other.job(), folder / "a.cfck"));
  const auto& options = static_cast<const optim::AdamOptions&>(
      std::as_const(other.optimizer->param_groups()[0]).options());
  EXPECT_EQ(options.lr(), 0.001);
  EXPECT_EQ(options.eps(), 1e-6);
}

TEST(LibtorchJobs, WhatDoesNotFitChangesNothing) {
  const Folder folder;
  const Make make = maker<optim::Adam>(optim::AdamOptions(0.01));
  Training saved(make);
  saved.train(2);
  ASSERT_TRUE(save(saved.job(), folder / "a.cfck"));
  Training other(make);
  const auto before = other.net->parameters()[0].clone();
  const auto refuse = [&](const Job& job, const std::string& words) {
    const auto refused = load(job, folder / "a.cfck");
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find(words), std::string::npos) << refused.error().message;
    EXPECT_TRUE(same_bits(other.net->parameters()[0], before));
    EXPECT_EQ(other.step, 0);
    EXPECT_TRUE(other.optimizer->state().empty());
  };
  // Another type, another name, another optimizer, another module.
  double real = 0;
  refuse(other.job().add("more", real), "missing in the file: \"more\"");
  Job wrong;
  wrong.add("model", *other.net).add("optimizer", *other.optimizer).add("step", other.done);
  refuse(wrong, "step is a value of another type");
  refuse(wrong, "unexpected in the file: \"rate\", \"note\"");
  optim::Adam fewer(std::vector<at::Tensor>{other.net->parameters()[0]}, optim::AdamOptions());
  Job groups;
  groups.add("optimizer", fewer);
  refuse(groups, "another number of parameters");
  torch::nn::Linear linear(3, 3);
  Job module;
  module.add("model", *linear);
  refuse(module, "\"model.0.weight\"");
  EXPECT_FALSE(save(Job().add("a", real).add("a", real), folder / "b.cfck"));
  // A file without a job.
  ASSERT_TRUE(save(*saved.net, folder / "net.cfck"));
  EXPECT_FALSE(load(other.job(), folder / "net.cfck"));
}

// Fields that only one of two optimizers has say of which kind a file is, before the first step
// too.
TEST(LibtorchJobs, OfAnotherKindOfOptimizerAreRefused) {
  const Folder folder;
  for (const int steps : {0, 2}) {
    Training saved(maker<optim::AdamW>(optim::AdamWOptions(0.01)));
    saved.mean = torch::zeros({6});
    saved.train(steps);
    ASSERT_TRUE(save(saved.job(), folder / "a.cfck"));
    Training momentum(maker<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9)));
    Training adagrad(maker<optim::Adagrad>(optim::AdagradOptions(0.1)));
    for (Training* other : {&momentum, &adagrad}) {
      const auto loaded = load(other->job(), folder / "a.cfck");
      ASSERT_FALSE(loaded);
      EXPECT_NE(loaded.error().message.find("another kind of optimizer"), std::string::npos)
          << loaded.error().message;
    }
    EXPECT_TRUE(load(saved.job(), folder / "a.cfck"));
  }
}

TEST(LibtorchJobs, AreCheckpoints) {
  const Folder folder;
  Training training(maker<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9)));
  training.train(2);
  ASSERT_TRUE(save(training.job(), folder / "a.cfck"));
  const auto reader = Reader::open(folder / "a.cfck");
  ASSERT_TRUE(reader);
  const auto bytes = reader->attachment(kCheckpointAttachment);
  ASSERT_TRUE(bytes);
  const auto checkpoint =
      parse_checkpoint({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  ASSERT_TRUE(checkpoint) << checkpoint.error().to_string();
  EXPECT_NE(reader->find("model.0.weight"), nullptr);
  EXPECT_NE(reader->find("optimizer.state.0.momentum_buffer"), nullptr);
  EXPECT_NE(reader->find("rng"), nullptr);
}

}  // namespace
}  // namespace cfck::test
