// Saves two tensors that share memory, loads them again, and changes the file.
//
//   save_and_load [FILE]
#include <algorithm>
#include <cfck/cfck.hpp>
#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr std::uint64_t kRows = 1024;
constexpr std::uint64_t kColumns = 768;

// The file appears under its name complete, or not at all.
cfck::Result<void> save(const std::string& path, const std::vector<float>& weights) {
  CFCK_TRY_ASSIGN(const auto file, cfck::AtomicFile::create(path));
  CFCK_TRY_ASSIGN(cfck::Writer writer, cfck::Writer::create(*file));
  CFCK_TRY(writer.set_metadata("made_by", "save_and_load"));

  // Views of shared memory are stored once and are loaded tied: here the whole matrix, and its
  // first column.
  const auto* data = reinterpret_cast<const std::byte*>(weights.data());
  const std::vector<cfck::StridedTensor> tensors = {
      {"weight", cfck::DType::kF32, {kRows, kColumns}, {kColumns, 1}, data},
      {"first_column", cfck::DType::kF32, {kRows}, {kColumns}, data},
  };
  CFCK_TRY(writer.add_tensors(tensors));

  CFCK_TRY_ASSIGN(const cfck::WriteSummary summary, writer.finish());
  CFCK_TRY(file->commit());
  std::printf("saved %llu bytes of tensors in %llu bytes\n",
              static_cast<unsigned long long>(summary.decoded_bytes),
              static_cast<unsigned long long>(summary.file_bytes));
  return {};
}

// The size is checked against the limits of the reader before memory is taken: a small file may
// claim a huge tensor.
cfck::Result<cfck::OwnedTensor> load(const std::string& path, const std::string& name) {
  CFCK_TRY_ASSIGN(const cfck::Reader reader, cfck::Reader::open(path));
  return reader.read(name);
}

// Appends a tensor; existing tensors of the file are not written again.
cfck::Result<void> append(const std::string& path, const std::vector<float>& bias) {
  cfck::Update changes;
  changes.tensors = {{"bias",
                      cfck::DType::kF32,
                      {bias.size()},
                      {1},
                      reinterpret_cast<const std::byte*>(bias.data())}};
  CFCK_TRY(cfck::update(path, changes));
  return {};
}

cfck::Result<void> run(const std::string& path) {
  std::vector<float> weights(kRows * kColumns);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = 0.001F * static_cast<float>(i * 7919 % 1000) - 0.5F;
  }
  CFCK_TRY(save(path, weights));
  CFCK_TRY(append(path, {0.25F, -0.5F}));
  CFCK_TRY_ASSIGN(const cfck::OwnedTensor loaded, load(path, "weight"));
  CFCK_TRY_ASSIGN(const cfck::OwnedTensor bias, load(path, "bias"));
  if (!std::ranges::equal(loaded.values<float>(), weights) || bias.values<float>().size() != 2) {
    return cfck::internal_error("what came back is not what was saved");
  }
  std::printf("loaded the same values again\n");
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const cfck::Result<void> result = run(argc > 1 ? argv[1] : "example.cfck");
  if (!result) {
    std::fprintf(stderr, "save_and_load: %s\n", result.error().to_string().c_str());
    return 1;
  }
  return 0;
}
