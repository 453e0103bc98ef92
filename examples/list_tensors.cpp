// Lists the tensors of a file and checks them all.
//
//   list_tensors FILE
#include <cfck/dtype.hpp>
#include <cfck/reader.hpp>
#include <cstdio>
#include <string>

namespace {

std::string shape_text(const cfck::Shape& shape) {
  std::string text;
  for (const std::uint64_t size : shape) {
    text += (text.empty() ? "" : "x") + std::to_string(size);
  }
  return text.empty() ? "scalar" : text;
}

cfck::Result<void> run(const std::string& path) {
  CFCK_TRY_ASSIGN(const cfck::Reader reader, cfck::Reader::open(path));
  for (const cfck::Record& record : reader.records()) {
    if (!record.hidden) {
      std::printf("%-20s %-8s %-12s %6.2f bits per weight\n", record.name.c_str(),
                  std::string(cfck::dtype_name(record.dtype)).c_str(),
                  shape_text(record.shape).c_str(), record.bits_per_weight());
    }
  }
  CFCK_TRY_ASSIGN(const cfck::VerifyReport report, reader.verify(cfck::VerifyLevel::kDeep));
  for (const cfck::Error& problem : report.problems) {
    std::printf("damaged: %s\n", problem.to_string().c_str());
  }
  std::printf("%zu problems\n", report.problems.size());
  if (!report.problems.empty()) {
    return report.problems.front();
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: list_tensors FILE\n");
    return 2;
  }
  const cfck::Result<void> result = run(argv[1]);
  if (!result) {
    std::fprintf(stderr, "list_tensors: %s\n", result.error().to_string().c_str());
    return 1;
  }
  return 0;
}
