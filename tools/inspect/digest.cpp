#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"
#include "base/text.hpp"
#include "model/folder/find_model.hpp"
#include "tools/inspect/inspect.hpp"
#include "tools/inspect/tensor_set.hpp"
#include "tools/output/interrupt.hpp"
#include "tools/output/left_out.hpp"
#include "tools/output/listing.hpp"
#include "tools/output/progress_bar.hpp"

namespace cfck::tools {
namespace {

using Json = nlohmann::ordered_json;

struct TensorDigest {
  std::string name;
  DType dtype;
  Shape shape;
  Digest digest;
};

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  std::byte raw[sizeof(T)];
  store(raw, value);
  bytes.insert(bytes.end(), raw, raw + sizeof(T));
}

// Specification, section 8: the content digest, over the tensors of all shards.
Digest content_digest(const std::vector<TensorDigest>& sorted) {
  std::vector<std::byte> bytes;
  for (const TensorDigest& tensor : sorted) {
    append(bytes, static_cast<std::uint32_t>(tensor.name.size()));
    const auto name = std::as_bytes(std::span(tensor.name));
    bytes.insert(bytes.end(), name.begin(), name.end());
    append(bytes, static_cast<std::uint8_t>(tensor.dtype));
    append(bytes, static_cast<std::uint8_t>(tensor.shape.size()));
    for (const std::uint64_t dim : tensor.shape) append(bytes, dim);
    const auto digest = std::as_bytes(std::span(tensor.digest));
    bytes.insert(bytes.end(), digest.begin(), digest.end());
  }
  return hash128(bytes);
}

// Returns digests sorted by name, from the index of a .cfck file; of safetensors every byte is
// read.
Result<std::vector<TensorDigest>> digests_of(const std::string& path, const ReadingOptions& reading,
                                             bool show_progress) {
  CFCK_TRY_ASSIGN(TensorSet tensors, TensorSet::open(path, reading));
  std::uint64_t total_bytes = 0;
  for (const StoredTensor& tensor : tensors.tensors()) {
    if (tensor.record == nullptr) total_bytes += tensor.n_bytes;
  }
  ProgressBar bar(show_progress, total_bytes);
  bar.start("reading " + path.substr(path.rfind('/') + 1));
  tensors.listen([&](std::uint64_t n_bytes) { bar.advance(n_bytes); });
  std::vector<TensorDigest> digests;
  for (const StoredTensor& tensor : tensors.tensors()) {
    CFCK_TRY_ASSIGN(const Digest digest, tensors.digest(tensor));
    digests.push_back({tensor.name, tensor.dtype, tensor.shape, digest});
  }
  std::sort(digests.begin(), digests.end(),
            [](const TensorDigest& a, const TensorDigest& b) { return a.name < b.name; });
  return digests;
}

void print_digests(Console& console, const std::string& path,
                   const std::vector<TensorDigest>& digests, bool per_tensor) {
  const std::string content = hexadecimal(content_digest(digests));
  if (console.json()) {
    Json json{{"schema_version", 1}, {"file", json_text(path)}, {"digest", content}};
    Json records = Json::array();
    for (const TensorDigest& tensor : digests) {
      records.push_back({{"name", tensor.name}, {"digest", hexadecimal(tensor.digest)}});
    }
    json["records"] = std::move(records);
    console.print(json.dump(-1, ' ', true) + "\n");
    return;
  }
  console.print(fmt::format("{}  {}\n", content, escaped(path)));
  if (!per_tensor) return;
  for (const TensorDigest& tensor : digests) {
    console.print(fmt::format("{}    {}\n", hexadecimal(tensor.digest), escaped(tensor.name)));
  }
}

}  // namespace

int run_digest(const DigestOptions& options, Console& console) {
  catch_interrupts();
  int code = kExitOk;
  for (const std::string& path : options.paths) {
    const auto models = model::all_models(path);
    if (!models) code = worse_exit_code(code, console.fail(models.error(), path));
    if (!models) continue;
    warn_of_files_left_out(console, path, "not read");
    for (const std::string& model : *models) {
      const auto digests = digests_of(model, options.reading, console.shows_progress());
      if (const int number = interrupt_signal(); number != 0) return kExitSignal + number;
      if (digests) {
        print_digests(console, model, *digests, options.per_tensor);
      } else {
        code = worse_exit_code(code, console.fail(digests.error(), model));
      }
    }
  }
  return code;
}

}  // namespace cfck::tools
