// Skeletons of checkpoints: what spec/checkpoint.md says of them.
#include "cfck/checkpoint.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "base/base64.hpp"
#include "model/checkpoint/keys.hpp"

namespace cfck {
namespace {

// The example of the specification.
const std::string kExample =
    R"({"format":"cfck.checkpoint","version":1,"containers":[
{"dict":[["w",{"tensor":"model.w"}]]},
{"tuple":[{"float":0.9},{"float":0.999}]},
{"dict":[["model",{"at":0}],["betas",{"at":1}],["best",{"float":"7ff0000000000000"}],["epoch",3]]}
],"root":{"at":2}}
)";

std::string document(const std::string& containers, const std::string& root) {
  return R"({"format":"cfck.checkpoint","version":1,"containers":[)" + containers +
         "],\"root\":" + root + "}";
}

TEST(Checkpoint, ReadsAndWritesTheExampleOfTheSpecification) {
  const auto checkpoint = parse_checkpoint(kExample);
  ASSERT_TRUE(checkpoint) << checkpoint.error().to_string();
  ASSERT_EQ(checkpoint->containers.size(), 3U);
  const CheckpointContainer* root = checkpoint->container(checkpoint->root);
  ASSERT_NE(root, nullptr);
  EXPECT_EQ(*Checkpoint::find(*root, "epoch"), CheckpointValue{std::int64_t{3}});
  EXPECT_EQ(*Checkpoint::find(*root, "best"),
            CheckpointValue{std::numeric_limits<double>::infinity()});
  const auto* model = checkpoint->container(*Checkpoint::find(*root, "model"));
  const TensorReference w{TensorReference::Kind::kTensor, "model.w", false};
  EXPECT_EQ(*Checkpoint::find(*model, "w"), CheckpointValue{w});
  EXPECT_EQ(Checkpoint::find(*root, "gone"), nullptr);

  const auto json = format_checkpoint(*checkpoint);
  ASSERT_TRUE(json) << json.error().to_string();
  EXPECT_EQ(*json, kExample);
}

TEST(Checkpoint, KeepsEveryKindOfValue) {
  const std::string all = document(
      R"({"list":[null,true,false,"\u00fc\n\"",-5,{"int":"0x20000000000000"},{"int":"-0x1ffffffffffffffffffff"},)"
      R"({"float":-0.0},{"float":"7ff8000000000001"},{"complex":[1.5,"fff0000000000000"]},{"bytes":"YWI="},)"
      R"({"numpy.scalar":["float32","cdcccc3d"]},{"torch.Size":[2,3]},{"torch.dtype":"float32"},)"
      R"({"torch.device":"cuda:0"},{"parameter":["p",true]},{"tensor":"t"},{"array":"a"}]},)"
      R"({"set":[1,"a",{"tuple":[1,{"tuple":[]}]}]},{"frozenset":[]},{"Counter":[[{"float":0.5},1]]},)"
      R"({"OrderedDict":[[null,{"at":1}]]},{"state_dict":[[["w",{"at":2}]],{"at":3}]},)"
      R"({"tuple":[{"at":0},{"at":4},{"at":5},{"at":0}]})",
      R"({"at":6})");
  const auto first = parse_checkpoint(all);
  ASSERT_TRUE(first) << first.error().to_string();
  const auto json = format_checkpoint(*first);
  ASSERT_TRUE(json) << json.error().to_string();
  const auto second = parse_checkpoint(*json);
  ASSERT_TRUE(second) << second.error().to_string();
  ASSERT_EQ(*format_checkpoint(*second), *json);
  const auto& values = second->containers[0].values;
  EXPECT_EQ(values[3], CheckpointValue{std::string("\u00fc\n\"")});
  EXPECT_EQ(values[5], CheckpointValue{std::int64_t{1} << 53});
  EXPECT_EQ(values[6], CheckpointValue{BigInteger{"-0x1ffffffffffffffffffff"}});
  EXPECT_TRUE(std::signbit(std::get<double>(values[7].value)));
  EXPECT_EQ(std::bit_cast<std::uint64_t>(std::get<double>(values[8].value)), 0x7ff8000000000001U);
  EXPECT_EQ(values[10], CheckpointValue{CheckpointBytes{"ab"}});
  EXPECT_EQ(values[12], (CheckpointValue{TorchSize{{2, 3}}}));
}

TEST(Checkpoint, RefusesWhatTheSpecificationForbids) {
  const std::string cases[] = {
      "",
      "[]",
      "\xEF\xBB\xBF" + kExample,
      kExample + "x",
      R"({"format":"other","version":1,"containers":[],"root":1})",
      R"({"format":"cfck.checkpoint","version":0,"containers":[],"root":1})",
      R"({"format":"cfck.checkpoint","version":1,"containers":[]})",
      R"({"format":"cfck.checkpoint","version":1,"containers":[],"root":1,"more":1})",
      R"({"format":"cfck.checkpoint","version":1,"version":1,"containers":[],"root":1})",
      document("", "1.5"),
      document("", "9007199254740992"),
      document("", "99999999999999999999999"),
      document("", "[1]"),
      document("", R"({"int":"5"})"),
      document("", R"({"int":"0x"})"),
      document("", R"({"int":"0xG"})"),
      document("", R"({"float":"7ff"})"),
      document("", R"({"float":true})"),
      document("", R"({"float":1e999})"),
      document("", R"({"bytes":"YWI"})"),
      document("", R"({"bytes":"YWJ="})"),
      document("", R"({"numpy.scalar":["bool","02"]})"),
      document("", R"({"numpy.scalar":["int16","zz00"]})"),
      document("", R"({"torch.Size":[{"int":"0x8000000000000000"}]})"),
      document("", R"({"parameter":["p",1]})"),
      document("", R"({"float":1.5,"int":"0x1"})"),
      document("", R"({"at":0})"),
      document("", "\"\\ud800\""),
      document(R"({"list":[]})", "1"),                    // nothing refers to it
      document(R"({"list":[{"at":0}]})", R"({"at":0})"),  // a cycle
      document(R"({"dict":[[1]]})", R"({"at":0})"),
      document(R"({"dict":[[1,2],[true,3]]})", R"({"at":0})"),  // equal keys
      document(R"({"dict":[["a",2],["a",3]]})", R"({"at":0})"),
      document(
          R"({"dict":[[{"int":"0x40000000000000000000"},2],[{"float":302231454903657293676544.0},3]]})",
          R"({"at":0})"),
      document(R"({"dict":[[{"bytearray":"YWI="},2]]})", R"({"at":0})"),
      document(R"({"dict":[[{"torch.Size":[1]},2],[{"tuple":[1]},2]]})", R"({"at":0})"),
      document(R"({"attributes":[[["a",1]],2]})", R"({"at":0})"),
      document(R"({"attributes":[[[1,1]],{"tensor":"w"}]})", R"({"at":0})"),
      document(R"({"torch.sparse":[{"torch.layout":"sparse_coo"}]})", R"({"at":0})"),
      document("", R"({"torch.meta":["float32",[1],[],"tensor",false]})"),
      document("", R"({"torch.tensor":["w",null,"array",false]})"),
      document(R"({"set":[1,{"float":1.0}]})", R"({"at":0})"),
      document(R"({"list":[{"tensor":"t"},{"array":"t"}]})", R"({"at":0})"),
  };
  for (const std::string& json : cases) {
    const auto parsed = parse_checkpoint(json);
    ASSERT_FALSE(parsed) << json;
    EXPECT_EQ(parsed.error().code, ErrorCode::kCorrupt) << json << parsed.error().to_string();
    EXPECT_TRUE(parsed.error().message.starts_with("the checkpoint's skeleton is damaged: "));
  }
}

TEST(Checkpoint, SaysThatANewerVersionWroteIt) {
  for (const std::string& json :
       {std::string(R"({"format":"cfck.checkpoint","version":2,"containers":[],"root":1})"),
        document("", R"({"quaternion":1})"), document(R"({"deque":[]})", R"({"at":0})"),
        document("", R"({"numpy.scalar":["float4","0"]})")}) {
    const auto parsed = parse_checkpoint(json);
    ASSERT_FALSE(parsed) << json;
    EXPECT_EQ(parsed.error().code, ErrorCode::kUnsupported) << json;
  }
}

TEST(Checkpoint, EveryPrefixIsRefused) {
  for (std::size_t n_bytes = 0; n_bytes + 2 < kExample.size(); ++n_bytes) {
    EXPECT_FALSE(parse_checkpoint(kExample.substr(0, n_bytes))) << n_bytes;
  }
}

std::string chain(std::size_t n_containers) {
  std::string containers = R"({"list":[]})";
  for (std::size_t i = 1; i < n_containers; ++i) {
    containers += R"(,{"list":[{"at":)" + std::to_string(i - 1) + "}]}";
  }
  return document(containers, R"({"at":)" + std::to_string(n_containers - 1) + "}");
}

TEST(Checkpoint, AThousandContainersDeepAndNoMore) {
  EXPECT_TRUE(parse_checkpoint(chain(1000)));
  EXPECT_FALSE(parse_checkpoint(chain(1001)));
  EXPECT_FALSE(parse_checkpoint(document("", std::string(100000, '['))));
  EXPECT_EQ(parse_checkpoint(std::string(kMaxCheckpointBytes + 1, ' ')).error().code,
            ErrorCode::kLimitExceeded);
}

TEST(Checkpoint, RefusesToWriteWhatCannotBeRead) {
  Checkpoint checkpoint;
  const auto message = [&] {
    const auto json = format_checkpoint(checkpoint);
    return json ? std::string() : json.error().message;
  };
  checkpoint.root.value = ContainerReference{0};
  EXPECT_NE(message(), "");
  checkpoint.containers.emplace_back();
  EXPECT_EQ(message(), "");
  checkpoint.containers[0].keys.push_back({std::string("\xFF")});
  EXPECT_NE(message(), "");  // no value
  checkpoint.containers[0].values.emplace_back();
  EXPECT_EQ(message(), "container 0 of the checkpoint has a string that is not valid UTF-8");
  checkpoint.containers[0].keys[0] = {CheckpointBytes{"a", true}};
  EXPECT_NE(message(), "");
  checkpoint.containers[0].keys[0] = {std::int64_t{1}};
  EXPECT_EQ(message(), "");
  checkpoint.containers[0].values[0] = {NumpyScalar{"bool", "\x02"}};
  EXPECT_NE(message(), "");
  checkpoint.containers[0].values[0] = {TupleKey{}};
  EXPECT_NE(message(), "");
}

TEST(Checkpoint, NamesOfRecords) {
  CheckpointNames names;
  const auto name = [&](std::vector<std::string> steps) { return names.name(steps); };
  EXPECT_EQ(name({"optimizer", "state", "12", "exp_avg"}), "optimizer.state.12.exp_avg");
  EXPECT_EQ(name({"a.b"}), "a.b");
  EXPECT_EQ(name({"a", "b"}), "a.b~2");
  EXPECT_EQ(name({"a", "b"}), "a.b~3");
  EXPECT_EQ(name({"a.b~4"}), "a.b~4");
  EXPECT_EQ(name({"a", "b"}), "a.b~5");
  EXPECT_EQ(name({}), "root");
  EXPECT_EQ(name({""}), "root~2");
  const std::string umlauts = std::string(600, 'a') + std::string("\u00fc") + std::string(600, 'b');
  EXPECT_EQ(name({umlauts}), std::string(500, 'a') + "..." + std::string(500, 'b'));

  EXPECT_EQ(checkpoint_step({TupleKey{{{std::int64_t{1}}, {std::string("x")}}}}), "(1,x)");
  EXPECT_EQ(checkpoint_step({BigInteger{"0xffffffffffffffff"}}), "18446744073709551615");
  EXPECT_EQ(checkpoint_step({BigInteger{"-0x1ffffffffffffffff"}}), "-0x1ffffffffffffffff");
  EXPECT_EQ(checkpoint_step({0.5}), "0.5");
}

TEST(Checkpoint, KeysOfOptimizers) {
  for (const char* key :
       {"optim", "optimizer", "OPTIMIZERS", "my_optims", "optimizer_state_dict", "optimum.optim"}) {
    EXPECT_TRUE(is_optimizer_key(key)) << key;
  }
  for (const char* key : {"", "optimal", "nooptim", "optimizerx", "optimum", "opt"}) {
    EXPECT_FALSE(is_optimizer_key(key)) << key;
  }
}

TEST(Checkpoint, FloatsAreWrittenAsPythonWritesThem) {
  using model::python_float;
  EXPECT_EQ(python_float(0.0), "0.0");
  EXPECT_EQ(python_float(-0.0), "-0.0");
  EXPECT_EQ(python_float(1.0), "1.0");
  EXPECT_EQ(python_float(0.1), "0.1");
  EXPECT_EQ(python_float(-1234.5), "-1234.5");
  EXPECT_EQ(python_float(1e-4), "0.0001");
  EXPECT_EQ(python_float(1.25e-5), "1.25e-05");
  EXPECT_EQ(python_float(1e15), "1000000000000000.0");
  EXPECT_EQ(python_float(1e16), "1e+16");
  EXPECT_EQ(python_float(1.5e300), "1.5e+300");
  EXPECT_EQ(python_float(5e-324), "5e-324");
}

TEST(Base64, ThereAndBack) {
  using detail::base64;
  using detail::bytes_of_base64;
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("a"), "YQ==");
  EXPECT_EQ(base64("ab"), "YWI=");
  EXPECT_EQ(base64("abc"), "YWJj");
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(bytes_of_base64(base64(bytes)), bytes);
    bytes += static_cast<char>(i * 37);
  }
  for (const char* wrong : {"Y", "YQ", "YQ=", "Y===", "====", "YR==", "YQ==YQ==", "Y Q=", "YQ=a"}) {
    EXPECT_EQ(bytes_of_base64(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace cfck
