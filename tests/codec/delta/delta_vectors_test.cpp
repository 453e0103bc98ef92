// Decodes the vectors of codec delta (spec/vectors/make_delta.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codec/delta/delta.hpp"

namespace cfck::codec {
namespace {

std::vector<std::byte> read(const std::string& name) {
  std::ifstream file(std::string(CFCK_VECTORS) + "/delta/" + name, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

TEST(DeltaVectors, DecodeToTheValuesThatWereEncoded) {
  std::ifstream file(std::string(CFCK_VECTORS) + "/delta/manifest.json");
  const nlohmann::json manifest = nlohmann::json::parse(file);
  ASSERT_GT(manifest["chunks"].size(), 10U);
  for (const nlohmann::json& entry : manifest["chunks"]) {
    const std::string name = entry["name"];
    SCOPED_TRACE(name);
    const std::vector<std::byte> base = read(name + ".base");
    const std::vector<std::byte> values = read(name + ".values");
    ChunkInfo info;
    info.dtype = dtype_from_name(entry["dtype"].get<std::string>()).value();
    info.n_elems = entry["n_elems"];
    info.base = base;
    Scratch scratch;
    std::vector<std::byte> out(base.size());
    const auto done = delta_decoder().decode(info, read(name + ".chunk"), scratch, out);
    ASSERT_TRUE(done) << done.error().to_string();
    EXPECT_TRUE(out == values);
  }
}

}  // namespace
}  // namespace cfck::codec
