// Trains a small network for some steps, from a job and to a job: for the tests between C++ and
// Python.
//
//   libtorch_job OPTIMIZER STEPS OUT [IN]
#include <torch/torch.h>

#include <cfck/torch.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace optim = torch::optim;

namespace {

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name,
                                                 std::vector<at::Tensor> parameters) {
  if (name == "SGD") {
    return std::make_unique<optim::SGD>(std::move(parameters),
                                        optim::SGDOptions(0.05).momentum(0.9));
  }
  if (name == "Adam") {
    return std::make_unique<optim::Adam>(std::move(parameters), optim::AdamOptions(0.01));
  }
  if (name == "AdamW") {
    return std::make_unique<optim::AdamW>(std::move(parameters), optim::AdamWOptions(0.01));
  }
  if (name == "RMSprop") {
    return std::make_unique<optim::RMSprop>(std::move(parameters), optim::RMSpropOptions(0.01));
  }
  if (name == "Adagrad") {
    return std::make_unique<optim::Adagrad>(std::move(parameters), optim::AdagradOptions(0.01));
  }
  return std::make_unique<optim::LBFGS>(std::move(parameters),
                                        optim::LBFGSOptions(0.1).max_iter(3));
}

template <class T>
void require(const cfck::Result<T>& result) {
  if (result) return;
  std::fprintf(stderr, "%s\n", result.error().to_string().c_str());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(6, 10), torch::nn::Tanh(), torch::nn::Dropout(0.3),
                            torch::nn::Linear(10, 2));
  const auto optimizer = make_optimizer(argv[1], net->parameters());
  std::int64_t step = 0;
  cfck::libtorch::Job job;
  job.add("model", *net).add("optimizer", *optimizer).add("step", step).add_rng("rng");
  if (argc > 4) require(cfck::libtorch::load(job, argv[4]));
  for (int i = 0; i < std::atoi(argv[2]); ++i) {
    const auto x = torch::randn({16, 6});
    optimizer->step([&] {
      optimizer->zero_grad();
      auto loss = net->forward(x).square().mean();
      loss.backward();
      return loss;
    });
    ++step;
  }
  require(cfck::libtorch::save(job, argv[3]));
  return 0;
}
