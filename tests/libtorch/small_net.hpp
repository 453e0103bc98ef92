// A module with parameters, buffers, a tied weight and a layer without bias.
#pragma once

#include <torch/nn.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

namespace cfck::test {

struct SmallNet : torch::nn::Module {
  SmallNet() {
    conv =
        register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 8, 3).bias(false)));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    layers =
        register_module("layers", torch::nn::Sequential(torch::nn::Linear(8, 64), torch::nn::ReLU(),
                                                        torch::nn::Linear(64, 8)));
    tied = register_parameter("tied", layers->ptr<torch::nn::LinearImpl>(0)->weight);
    position = register_buffer("position", torch::arange(8));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = norm(conv(x)).mean({2, 3});
    return layers->forward(x) + position;
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Sequential layers{nullptr};
  torch::Tensor tied;
  torch::Tensor position;
};

// A folder of its own for each test.
class Folder {
 public:
  Folder() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("cfck-libtorch-" + std::to_string(::getpid()) + "-" + std::to_string(++count));
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Equal bits: NaN too.
inline bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const auto one = a.detach().contiguous();
  const auto other = b.detach().contiguous();
  return std::memcmp(one.const_data_ptr(), other.const_data_ptr(), one.nbytes()) == 0;
}

}  // namespace cfck::test
