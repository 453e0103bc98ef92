#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/access.hpp"
#include "base/text.hpp"
#include "cfck/io.hpp"
#include "interop/numpy/npy_header.hpp"
#include "tools/inspect/inspect.hpp"
#include "tools/inspect/tensor_set.hpp"
#include "tools/output/interrupt.hpp"

namespace cfck::tools {
namespace {

Error wrong_usage(std::string message) { return invalid_argument(std::move(message)); }

// Checks the output before anything is read.
Result<void> check_output(const ExtractOptions& options, const Console& console) {
  if (options.output.empty()) {
    return wrong_usage(fmt::format("no output file given; try cfck extract {} {} -o tensor.npy",
                                   escaped(options.path), escaped(options.name)));
  }
  if (options.output != "-") return {};
  if (console.json())
    return wrong_usage("-o - writes the array to standard output; leave out --json");
  if (::isatty(STDOUT_FILENO) != 0) {
    return wrong_usage("arrays are not written to a terminal; give a file name, or use a pipe");
  }
  return {};
}

std::string element_note(const interop::NpyHeader& header, const StoredTensor& tensor) {
  return fmt::format(
      "numpy has no dtype {}: stored as unsigned integers of {} bits with the same bits",
      header.stand_in_for, bits_per_element(tensor.dtype));
}

Result<void> write_array(const TensorSet& tensors, const StoredTensor& tensor,
                         const interop::NpyHeader& header, const ExtractOptions& options,
                         Console& console) {
  if (options.output == "-") {
    console.carry_file();
    console.print(header.bytes);
    return tensors.read_all(tensor, [&](ByteView bytes) -> Result<void> {
      console.print({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      return {};
    });
  }
  if (tensors.has_file(options.output)) {
    return wrong_usage("the output would replace the input file; choose another name");
  }
  AtomicFile::Options how;
  how.replace_existing = options.force;
  FilesLike files(system_files(), options.path);
  auto file = AtomicFile::create(options.output, how, files);
  if (!file) {
    Error error = std::move(file).error();
    if (error.code == ErrorCode::kExists) error.message += " (--force)";
    return error;
  }
  CFCK_TRY((*file)->write(std::as_bytes(std::span(header.bytes))));
  CFCK_TRY(tensors.read_all(tensor, [&](ByteView bytes) { return (*file)->write(bytes); }));
  return (*file)->commit();
}

Result<void> extract(const ExtractOptions& options, Console& console) {
  CFCK_TRY(check_output(options, console));
  CFCK_TRY_ASSIGN(const TensorSet tensors, TensorSet::open(options.path, options.reading));
  const StoredTensor* tensor = tensors.find(options.name);
  if (tensor == nullptr) return with_path(no_such_tensor(tensors, options.name), options.path);
  auto header = interop::npy_header(tensor->dtype, tensor->shape);
  if (!header) {
    Error error = std::move(header).error();
    error.record = tensor->name;
    return with_path(error, options.path);
  }
  CFCK_TRY(tensors.check_bytes(*tensor, tensor->n_bytes));
  CFCK_TRY(write_array(tensors, *tensor, *header, options, console));
  if (!header->stand_in_for.empty()) console.warn(element_note(*header, *tensor));
  if (options.output == "-") return {};
  const std::uint64_t file_bytes = header->bytes.size() + tensor->n_bytes;
  if (console.json()) {
    nlohmann::ordered_json json{{"schema_version", 1},
                                {"file", json_text(options.path)},
                                {"name", tensor->name},
                                {"dtype", dtype_name(tensor->dtype)},
                                {"shape", tensor->shape},
                                {"stand_in", !header->stand_in_for.empty()},
                                {"output", json_text(options.output)},
                                {"output_bytes", file_bytes}};
    console.print(json.dump(-1, ' ', true) + "\n");
  }
  console.say(fmt::format("{}: {} [{}], {}\n", escaped(options.output), dtype_name(tensor->dtype),
                          fmt::join(tensor->shape, ","), human_bytes(file_bytes)));
  return {};
}

}  // namespace

int run_extract(const ExtractOptions& options, Console& console) {
  catch_interrupts();
  const auto done = extract(options, console);
  if (const int number = interrupt_signal(); number != 0) return kExitSignal + number;
  return done ? kExitOk : console.fail(done.error());
}

}  // namespace cfck::tools
