// Modules and tensors of libtorch, saved and loaded.
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cfck/torch.hpp>
#include <fstream>

#include "small_net.hpp"

namespace cfck::test {
namespace {

using libtorch::load;
using libtorch::load_slice;
using libtorch::load_tensor;
using libtorch::load_tensors;
using libtorch::save;
using TensorMap = std::map<std::string, at::Tensor>;

std::vector<std::pair<std::string, at::Tensor>> all_tensors(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& item : module.named_parameters()) all.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) all.emplace_back(item.key(), item.value());
  return all;
}

bool same_modules(const torch::nn::Module& a, const torch::nn::Module& b) {
  const auto one = all_tensors(a);
  const auto other = all_tensors(b);
  if (one.size() != other.size()) return false;
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (one[i].first != other[i].first || !same_bits(one[i].second, other[i].second)) return false;
  }
  return true;
}

TEST(LibtorchModules, DoNotReplaceWhatOthersAreStoredAgainst) {
  const Folder folder;
  const TensorMap before = {{"weight", torch::randn({300, 200})}};
  TensorMap after = {{"weight", before.at("weight").clone()}};
  after.at("weight")[7] *= 1.001;
  ASSERT_TRUE(save(before, folder / "step1.cfck"));
  libtorch::SaveOptions options;
  options.encode.base = open_base(folder / "step1.cfck").value();
  ASSERT_TRUE(save(after, folder / "step2.cfck", options));
  const auto refused = save(after, folder / "step1.cfck");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kExists);
  EXPECT_NE(refused.error().message.find("'step2.cfck' is stored against"), std::string::npos);
  EXPECT_TRUE(same_bits(load_tensor(folder / "step2.cfck", "weight").value(), after.at("weight")));
  EXPECT_TRUE(save(after, folder / "step2.cfck", options)) << "nobody needs it";
  libtorch::SaveOptions replacing;
  replacing.replace_base = true;
  EXPECT_TRUE(save(after, folder / "step1.cfck", replacing));
}

TEST(LibtorchModules, ComeBackBitForBit) {
  const Folder folder;
  SmallNet net;  // on the stack: nobody shares it
  net.forward(torch::randn({4, 2, 6, 6}));
  const auto saved = save(net, folder / "net.cfck");
  ASSERT_TRUE(saved) << saved.error().to_string();
  EXPECT_LT(saved->file_bytes, saved->decoded_bytes);
  SmallNet other;
  EXPECT_FALSE(same_modules(net, other));
  const auto loaded = load(other, folder / "net.cfck");
  ASSERT_TRUE(loaded) << loaded.error().to_string();
  EXPECT_TRUE(same_modules(net, other));
  EXPECT_TRUE(loaded->missing.empty() && loaded->unexpected.empty());
  // As state_dict() orders them in Python.
  const auto reader = Reader::open(folder / "net.cfck");
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->records()[0].name, "tied");
  EXPECT_EQ(reader->records()[1].name, "position");
  EXPECT_EQ(reader->records()[2].name, "conv.weight");
  std::size_t n_aliases = 0;
  for (const Record& record : reader->records()) n_aliases += record.kind == RecordKind::kAlias;
  EXPECT_EQ(n_aliases, 1U);
}

TEST(LibtorchModules, NamesAndShapesThatDoNotFitAreListed) {
  const Folder folder;
  SmallNet net;
  TensorMap tensors;
  for (const auto& [name, tensor] : all_tensors(net)) tensors[name] = tensor;
  tensors.erase("norm.bias");
  tensors.erase("position");
  tensors["more"] = torch::ones({2});
  tensors["layers.2.weight"] = torch::ones({8, 65});
  ASSERT_TRUE(save(tensors, folder / "net.cfck"));
  SmallNet other;
  const auto before = other.conv->weight.clone();
  const auto failed = load(other, folder / "net.cfck");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kInvalidArgument);
  for (const char* words : {"\"norm.bias\"", "\"position\"", "unexpected in the file: \"more\"",
                            "layers.2.weight", "[8, 65]", "[8, 64]"}) {
    EXPECT_NE(failed.error().message.find(words), std::string::npos) << failed.error().message;
  }
  EXPECT_TRUE(same_bits(before, other.conv->weight));
  libtorch::LoadOptions lenient;
  lenient.strict = false;
  EXPECT_FALSE(load(other, folder / "net.cfck", lenient));  // the shape
  tensors.erase("layers.2.weight");
  ASSERT_TRUE(save(tensors, folder / "net.cfck"));
  const auto loaded = load(other, folder / "net.cfck", lenient);
  ASSERT_TRUE(loaded) << loaded.error().to_string();
  EXPECT_EQ(loaded->missing,
            (std::vector<std::string>{"position", "norm.bias", "layers.2.weight"}));
  EXPECT_EQ(loaded->unexpected, std::vector<std::string>{"more"});
  EXPECT_TRUE(same_bits(net.conv->weight, other.conv->weight));
}

TEST(LibtorchModules, DTypesAreConvertedAndStridesKept) {
  const Folder folder;
  SmallNet net;
  ASSERT_TRUE(save(net, folder / "net.cfck"));
  SmallNet half;
  half.to(torch::kBFloat16);
  ASSERT_TRUE(load(half, folder / "net.cfck"));
  EXPECT_TRUE(same_bits(half.conv->weight, net.conv->weight.to(torch::kBFloat16)));
  SmallNet other;
  other.conv->weight.set_data(other.conv->weight.contiguous(at::MemoryFormat::ChannelsLast));
  ASSERT_TRUE(load(other, folder / "net.cfck", {.device = torch::Device(torch::kCPU)}));
  EXPECT_TRUE(same_bits(other.conv->weight, net.conv->weight));
}

// A module with buffers as they are given.
struct Buffers : torch::nn::Module {
  explicit Buffers(const TensorMap& tensors) {
    for (const auto& [name, tensor] : tensors) register_buffer(name, tensor);
  }
};

TEST(LibtorchModules, ViewsWithChangedSignsTakeTheValues) {
  const Folder folder;
  const at::Tensor z = torch::randn({8}, at::kComplexFloat);
  const at::Tensor x = torch::randn({8});
  ASSERT_TRUE(
      save(Buffers({{"z", torch::conj(z)}, {"x", torch::_neg_view(x)}}), folder / "a.cfck"));
  Buffers other({{"z", torch::conj(torch::zeros({8}, at::kComplexFloat))},
                 {"x", torch::_neg_view(torch::zeros({8}))}});
  ASSERT_TRUE(load(other, folder / "a.cfck"));
  EXPECT_TRUE(
      torch::equal(other.named_buffers()["z"].resolve_conj(), torch::conj(z).resolve_conj()));
  EXPECT_TRUE(torch::equal(other.named_buffers()["x"].resolve_neg(), -x));
}

TEST(LibtorchModules, TensorsThatCannotTakeValuesAreNamedBeforeAnyIsChanged) {
  const Folder folder;
  ASSERT_TRUE(
      save(Buffers({{"a", torch::ones({4})}, {"b", torch::ones({3, 4})}}), folder / "a.cfck"));
  const at::Tensor meta = torch::empty({3, 4}, at::TensorOptions().device(at::kMeta));
  for (const at::Tensor& b : {torch::zeros({1, 4}).expand({3, 4}), meta}) {
    Buffers other({{"a", torch::zeros({4})}, {"b", b}});
    const auto loaded = load(other, folder / "a.cfck");
    ASSERT_FALSE(loaded);
    EXPECT_NE(loaded.error().message.find("b: "), std::string::npos) << loaded.error().message;
    EXPECT_TRUE(torch::equal(other.named_buffers()["a"], torch::zeros({4})));
  }
}

TEST(LibtorchModules, OfTiedNamesWithSeveralValuesTheLastCounts) {
  const Folder folder;
  ASSERT_TRUE(
      save(Buffers({{"a", torch::ones({4})}, {"b", torch::full({4}, 2)}}), folder / "a.cfck"));
  const at::Tensor tied = torch::zeros({4});
  const auto version = tied._version();
  Buffers other({{"a", tied}, {"b", tied}});
  ASSERT_TRUE(load(other, folder / "a.cfck"));
  EXPECT_TRUE(torch::equal(tied, torch::full({4}, 2)));
  EXPECT_GT(tied._version(), version);
}

TEST(LibtorchTensors, AllDTypesAndForms) {
  const Folder folder;
  TensorMap tensors;
  for (const auto type : {at::kBool,
                          at::kByte,
                          at::kChar,
                          at::kShort,
                          at::kInt,
                          at::kLong,
                          at::kUInt16,
                          at::kUInt32,
                          at::kUInt64,
                          at::kHalf,
                          at::kBFloat16,
                          at::kFloat,
                          at::kDouble,
                          at::kComplexFloat,
                          at::kFloat8_e5m2,
                          at::kFloat8_e4m3fn,
                          at::kFloat8_e5m2fnuz,
                          at::kFloat8_e4m3fnuz,
                          at::kFloat8_e8m0fnu,
                          at::kFloat4_e2m1fn_x2}) {
    const auto bytes = type == at::kBool ? torch::randint(0, 2, {3, 32}, at::kByte)
                                         : torch::randint(0, 256, {3, 32}, at::kByte);
    tensors[at::toString(type)] = bytes.view(type);
  }
  const auto base = torch::randn({6, 8});
  tensors["view"] = base.slice(1, 2, 5);
  tensors["transposed"] = base.t();
  tensors["base"] = base;
  tensors["expanded"] = torch::randn({1, 4}).expand({3, 4});
  tensors["scalar"] = torch::tensor(2.5);
  tensors["empty"] = torch::empty({0, 3});
  tensors["conj"] = torch::randn({3}, at::kComplexFloat).conj();
  ASSERT_TRUE(save(tensors, folder / "a.cfck"));
  const auto loaded = load_tensors(folder / "a.cfck");
  ASSERT_TRUE(loaded) << loaded.error().to_string();
  ASSERT_EQ(loaded->size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_TRUE(same_bits((*loaded)[name], tensor.resolve_conj())) << name;
    const auto one = load_tensor(folder / "a.cfck", name);
    ASSERT_TRUE(one) << name << one.error().to_string();
    EXPECT_TRUE(same_bits(*one, tensor.resolve_conj())) << name;
  }
  // Tied as they were.
  EXPECT_TRUE((*loaded)["view"].is_alias_of((*loaded)["base"]));
  EXPECT_TRUE((*loaded)["transposed"].is_alias_of((*loaded)["base"]));
  torch::OrderedDict<std::string, at::Tensor> ordered;
  ordered.insert("z", base);
  ordered.insert("a", base[0]);
  ASSERT_TRUE(libtorch::save(ordered, folder / "b.cfck"));
  const auto again = load_tensors(folder / "b.cfck");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->keys(), (std::vector<std::string>{"z", "a"}));
}

TEST(LibtorchTensors, Slices) {
  const Folder folder;
  const auto tensor = torch::randn({300, 400});
  ASSERT_TRUE(save(TensorMap{{"w", tensor}}, folder / "a.cfck"));
  const auto slice = load_slice(folder / "a.cfck", "w", {10, 20}, {30, 400});
  ASSERT_TRUE(slice);
  EXPECT_TRUE(same_bits(*slice, tensor.slice(0, 10, 30).slice(1, 20, 400)));
  EXPECT_FALSE(load_slice(folder / "a.cfck", "w", {10}, {30}));
  EXPECT_FALSE(load_slice(folder / "a.cfck", "w", {10, 20}, {301, 400}));
  EXPECT_FALSE(load_slice(folder / "a.cfck", "w", {10, 20}, {9, 400}));
  const auto missing = load_tensor(folder / "a.cfck", "v");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

TEST(LibtorchTensors, WhatCannotBeStoredIsNamed) {
  const Folder folder;
  std::ofstream(folder / "a.cfck") << "old";
  const auto refuse = [&](at::Tensor tensor, const std::string& words) {
    const auto refused =
        save(TensorMap{{"fine", torch::ones({2})}, {"bad", tensor}}, folder / "a.cfck");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().record, "bad");
    EXPECT_NE(refused.error().message.find(words), std::string::npos) << refused.error().message;
  };
  refuse({}, "undefined");
  refuse(torch::eye(3).to_sparse(), "to_dense");
  refuse(torch::ones({2}, at::kComplexDouble), "ComplexDouble");
  refuse(torch::empty({2}, at::TensorOptions().device(at::kMeta)), "meta");
  std::string kept;
  std::ifstream(folder / "a.cfck") >> kept;
  EXPECT_EQ(kept, "old");
}

TEST(LibtorchTensors, ErrorBoundsSpareBuffers) {
  const Folder folder;
  SmallNet net;
  libtorch::SaveOptions lossy;
  lossy.encode.max_sigma_error = 1e-2;
  net.register_buffer("table", torch::randn({64, 64}));
  net.register_parameter("large", torch::randn({64, 64}));
  const auto saved = save(net, folder / "net.cfck", lossy);
  ASSERT_TRUE(saved);
  ASSERT_EQ(saved->lossy.size(), 1U);
  EXPECT_EQ(saved->lossy[0].name, "large");
}

TEST(LibtorchTensors, DamagedFiles) {
  const Folder folder;
  SmallNet net;
  ASSERT_TRUE(save(net, folder / "net.cfck"));
  std::ifstream in(folder / "net.cfck", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t at = 0; at < whole.size(); at += 97) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    std::ofstream(folder / "bad.cfck", std::ios::binary) << damaged;
    SmallNet other;
    EXPECT_FALSE(load(other, folder / "bad.cfck")) << at;
    std::ofstream(folder / "cut.cfck", std::ios::binary) << whole.substr(0, at);
    EXPECT_FALSE(load_tensors(folder / "cut.cfck")) << at;
  }
  EXPECT_FALSE(load(net, folder / "nowhere.cfck"));
  EXPECT_FALSE(save(net, "/nowhere/at/all.cfck"));
}

}  // namespace
}  // namespace cfck::test
