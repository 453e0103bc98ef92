#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/bytes.hpp"
#include "base/hashing.hpp"
#include "base/text.hpp"
#include "cfck/reader.hpp"
#include "cfck/safetensors.hpp"
#include "tools/inspect.hpp"
#include "tools/interrupt.hpp"
#include "tools/listing.hpp"
#include "tools/model_folder.hpp"

namespace cfck::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kReadBytes = 64 * kLeafBytes;

struct TensorDigest {
  std::string name;
  DType dtype;
  Shape shape;
  Digest digest;
};

Result<Digest> digest_of_range(const ByteSource& source, std::uint64_t offset_bytes,
                               std::uint64_t n_bytes) {
  DigestBuilder builder(n_bytes);
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kReadBytes, n_bytes));
  for (std::uint64_t done = 0; done < n_bytes;) {
    const auto part =
        std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), n_bytes - done));
    CFCK_TRY(source.read_at(offset_bytes + done, part));
    const auto edges = builder.hash_whole_leaves(done, part);
    builder.add_edge(done, edges.head);
    builder.add_edge(done + part.size() - edges.tail.size(), edges.tail);
    done += part.size();
    if (interrupt_signal() != 0) return Error{ErrorCode::kInvalidArgument, "cancelled", {}, {}};
  }
  return builder.finish();
}

// From the index of a .cfck file; of a safetensors file every byte is read.
Result<void> add_digests(const std::string& path, std::vector<TensorDigest>& digests) {
  CFCK_TRY_ASSIGN(const auto source, open_file(path));
  CFCK_TRY_ASSIGN(const FileKind kind, file_kind(*source));
  if (kind == FileKind::kCfck) {
    CFCK_TRY_ASSIGN(const Reader reader, Reader::open(*source));
    for (const Record& record : reader.records()) {
      if (record.hidden) continue;
      digests.push_back({record.name, record.dtype, record.shape, record.digest});
    }
    return {};
  }
  CFCK_TRY_ASSIGN(const SafetensorsHeader header, read_safetensors_header(*source));
  for (const SafetensorsEntry& entry : header.entries) {
    CFCK_TRY_ASSIGN(const Digest digest,
                    digest_of_range(*source, entry.offset_bytes, entry.n_bytes));
    digests.push_back({entry.name, entry.dtype, entry.shape, digest});
  }
  return {};
}

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  std::byte raw[sizeof(T)];
  store(raw, value);
  bytes.insert(bytes.end(), raw, raw + sizeof(T));
}

// Spec, section 8: the content digest, over the tensors of all shards.
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

Result<std::vector<TensorDigest>> digests_of(const std::string& path) {
  CFCK_TRY_ASSIGN(const auto paths, tensor_files(path));
  std::vector<TensorDigest> digests;
  for (const std::string& file : paths) CFCK_TRY(add_digests(file, digests));
  std::sort(digests.begin(), digests.end(),
            [](const TensorDigest& a, const TensorDigest& b) { return a.name < b.name; });
  return digests;
}

}  // namespace

int run_digest(const DigestOptions& options, Console& console) {
  catch_interrupts();
  int code = kExitOk;
  for (const std::string& path : options.paths) {
    const auto digests = digests_of(path);
    if (const int number = interrupt_signal(); number != 0) return kExitSignal + number;
    if (!digests) {
      const int failed = console.fail(digests.error(), path);
      if (code == kExitOk) code = failed;
      continue;
    }
    const std::string content = hexadecimal(content_digest(*digests));
    if (console.json()) {
      Json json{{"schema_version", 1}, {"file", json_text(path)}, {"digest", content}};
      Json records = Json::array();
      for (const TensorDigest& tensor : *digests) {
        records.push_back({{"name", tensor.name}, {"digest", hexadecimal(tensor.digest)}});
      }
      json["records"] = std::move(records);
      console.print(json.dump(-1, ' ', true) + "\n");
      continue;
    }
    console.print(fmt::format("{}  {}\n", content, escaped(path)));
    if (!options.per_tensor) continue;
    for (const TensorDigest& tensor : *digests) {
      console.print(fmt::format("{}    {}\n", hexadecimal(tensor.digest), escaped(tensor.name)));
    }
  }
  return code;
}

}  // namespace cfck::tools
