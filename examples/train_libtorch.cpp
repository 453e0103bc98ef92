// The training loop of the C++ frontend of PyTorch, which stops and goes on where it stopped.
//
//   train_libtorch [FILE]
//
// Where such a program calls torch::save(net, "net.pt") and torch::save(optimizer, "optimizer.pt"),
// this one has the three lines marked below. load_checkpoint(FILE) in Python returns
// {"model": ..., "optimizer": ..., "epoch": ..., "rng": ...}.
#include <torch/torch.h>

#include <cfck/torch.hpp>
#include <cstdio>
#include <filesystem>

namespace {

struct Net : torch::nn::Module {
  Net() {
    conv = register_module("conv", torch::nn::Conv2d(1, 8, 5));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    fc = register_module("fc", torch::nn::Linear(8 * 12 * 12, 10));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(norm(conv(x)), 2));
    return torch::log_softmax(fc(x.flatten(1)), 1);
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear fc{nullptr};
};

// Digits of a kind: each class is a fixed pattern, with noise over it.
std::pair<torch::Tensor, torch::Tensor> batch(const torch::Tensor& patterns) {
  const auto labels = torch::randint(0, 10, {32});
  return {patterns.index_select(0, labels) + 0.5 * torch::randn({32, 1, 28, 28}), labels};
}

double train_epoch(Net& net, torch::optim::Optimizer& optimizer, const torch::Tensor& patterns) {
  double loss_sum = 0;
  for (int i = 0; i < 10; ++i) {
    const auto [images, labels] = batch(patterns);
    optimizer.zero_grad();
    const auto loss = torch::nll_loss(net.forward(images), labels);
    loss.backward();
    optimizer.step();
    loss_sum += loss.item<double>();
  }
  return loss_sum / 10;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string path = argc > 1 ? argv[1] : "train_libtorch.cfck";
  torch::manual_seed(0);
  const auto patterns = torch::randn({10, 1, 28, 28});
  const auto net = std::make_shared<Net>();
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-3));
  std::int64_t epoch = 0;

  cfck::libtorch::Job job;                                                                // 1
  job.add("model", *net).add("optimizer", optimizer).add("epoch", epoch).add_rng("rng");  // 2

  if (std::filesystem::exists(path)) {
    const auto loaded = cfck::libtorch::load(job, path);
    if (!loaded) {
      std::fprintf(stderr, "train_libtorch: %s\n", loaded.error().to_string().c_str());
      return 1;
    }
    std::printf("going on after epoch %d\n", static_cast<int>(epoch));
  }
  for (const std::int64_t last = epoch + 2; epoch < last;) {
    const double loss = train_epoch(*net, optimizer, patterns);
    std::printf("epoch %d, loss %.4f\n", static_cast<int>(++epoch), loss);
    const auto saved = cfck::libtorch::save(job, path);  // 3
    if (!saved) {
      std::fprintf(stderr, "train_libtorch: %s\n", saved.error().to_string().c_str());
      return 1;
    }
  }
  return 0;
}
