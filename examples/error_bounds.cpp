// Saves tensors within error bounds, and shows the errors that the file reports.
//
//   error_bounds [FILE]
#include <cfck/cfck.hpp>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr std::uint64_t kRows = 512;
constexpr std::uint64_t kColumns = 768;

cfck::TensorView view(const std::vector<float>& values, const cfck::Shape& shape) {
  return {cfck::DType::kF32, shape, std::as_bytes(std::span(values))};
}

// Every matrix may be off by a hundredth of its standard deviation, the head by 1e-5; tensors of
// one dimension are stored losslessly.
cfck::EncodeOptions options() {
  return {.max_sigma_error = 0.01, .rules = {{"head.*", {.max_abs_error = 1e-5}}}};
}

cfck::Result<void> save(const std::string& path, const std::vector<float>& weights,
                        const std::vector<float>& head, const std::vector<float>& bias) {
  CFCK_TRY_ASSIGN(const auto file, cfck::AtomicFile::create(path));
  CFCK_TRY_ASSIGN(cfck::Writer writer, cfck::Writer::create(*file, options()));
  CFCK_TRY(writer.add("layer.weight", view(weights, {kRows, kColumns})));
  CFCK_TRY(writer.add("layer.bias", view(bias, {kRows})));
  CFCK_TRY(writer.add("head.weight", view(head, {kRows, kColumns})));
  CFCK_TRY_ASSIGN(const cfck::WriteSummary summary, writer.finish());
  CFCK_TRY(file->commit());
  for (const cfck::KeptLossless& kept : summary.kept_lossless) {
    std::printf("%s is lossless: %s\n", kept.name.c_str(),
                std::string(cfck::lossless_reason_name(kept.reason)).c_str());
  }
  return {};
}

// The index alone has the requested bounds and the measured errors.
cfck::Result<void> show(const std::string& path) {
  CFCK_TRY_ASSIGN(const cfck::Reader reader, cfck::Reader::open(path));
  for (const cfck::Record& record : reader.records()) {
    std::printf("%s: %.2f bits per weight", record.name.c_str(), record.bits_per_weight());
    if (record.error) {
      std::printf(", asked %s %g, lost at most %g, root mean square %g",
                  std::string(cfck::bound_kind_name(record.error->bound.kind)).c_str(),
                  record.error->bound.value, record.error->max_abs_error, record.error->rmse);
    }
    std::printf("\n");
  }
  return {};
}

// Sums of sines of incommensurable frequencies, which never repeat.
std::vector<float> some_weights(std::size_t n, double frequency) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double t = static_cast<double>(i);
    values[i] = static_cast<float>(0.03 * (std::sin(frequency * t) + std::sin(1.7 * t * t)));
  }
  return values;
}

cfck::Result<void> run(const std::string& path) {
  CFCK_TRY(save(path, some_weights(kRows * kColumns, 0.61), some_weights(kRows * kColumns, 2.3),
                some_weights(kRows, 0.2)));
  return show(path);
}

}  // namespace

int main(int argc, char** argv) {
  const cfck::Result<void> result = run(argc > 1 ? argv[1] : "example.cfck");
  if (!result) {
    std::fprintf(stderr, "error_bounds: %s\n", result.error().to_string().c_str());
    return 1;
  }
  return 0;
}
