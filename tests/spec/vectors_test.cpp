// The library against the vectors of spec/vectors: their contents, and the error of those that are
// broken.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cfck/cfck.hpp"

namespace {

using cfck::ErrorCode;
using nlohmann::json;

const std::string kFolder = CFCK_VECTORS;

json manifest(const std::string& path) { return json::parse(std::ifstream(kFolder + path)); }

std::vector<std::byte> bytes_of(const std::string& path) {
  std::ifstream file(kFolder + path, std::ios::binary);
  const std::vector<char> chars{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::byte> bytes(chars.size());
  std::transform(chars.begin(), chars.end(), bytes.begin(),
                 [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

std::string kind_name(cfck::RecordKind kind) {
  switch (kind) {
    case cfck::RecordKind::kChunked:
      return "chunked";
    case cfck::RecordKind::kPacked:
      return "packed";
    case cfck::RecordKind::kAlias:
      return "alias";
    case cfck::RecordKind::kDuplicate:
      return "duplicate";
  }
  return "none";
}

// The base that the entry of a vector names, if any; files in memory have no folder to find it in.
cfck::DecodeOptions options_of(const json& entry) {
  cfck::DecodeOptions options;
  if (entry.contains("base")) {
    auto base = cfck::open_base(kFolder + "/" + entry["base"].get<std::string>());
    EXPECT_TRUE(base) << base.error().to_string();
    options.base = base ? *base : nullptr;
  }
  return options;
}

void expect_record(const cfck::Reader& reader, const json& expected) {
  const auto name = expected["name"].get<std::string>();
  SCOPED_TRACE(name);
  const cfck::Record* record = reader.find(name);
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(cfck::dtype_name(record->dtype), expected["dtype"].get<std::string>());
  EXPECT_EQ(record->shape, expected["shape"].get<cfck::Shape>());
  if (expected.contains("kind")) {
    EXPECT_NE(expected["kind"].get<std::string>().find(kind_name(record->kind)), std::string::npos);
  }
  std::vector<std::byte> out(record->decoded_bytes);
  const auto read = reader.read(*record, out);
  EXPECT_TRUE(read) << read.error().to_string();
}

void expect_vector(const json& entry) {
  const auto file = entry["file"].get<std::string>();
  SCOPED_TRACE(file);
  const std::vector<std::byte> bytes = bytes_of("/" + file);
  const cfck::MemorySource source(bytes);
  auto reader = cfck::Reader::open(source, options_of(entry));
  ASSERT_TRUE(reader) << reader.error().to_string();
  EXPECT_EQ(reader->needs_base(), entry.contains("base"));
  EXPECT_EQ(reader->base_name(), entry.value("base_name", ""));
  const auto records = reader->records();
  const auto n_named = std::count_if(records.begin(), records.end(),
                                     [](const cfck::Record& record) { return !record.hidden; });
  EXPECT_EQ(static_cast<std::size_t>(n_named), entry["tensors"].size());
  for (const json& expected : entry["tensors"]) {
    expect_record(*reader, expected);
  }
  EXPECT_EQ(reader->generation(), entry["generation"].get<std::uint64_t>());
  EXPECT_EQ(reader->metadata(), entry["metadata"].get<cfck::Metadata>());
  EXPECT_EQ(reader->attachments().size(), entry["attachments"].size());
  for (const cfck::Attachment& attachment : reader->attachments()) {
    EXPECT_TRUE(entry["attachments"].contains(attachment.name));
    EXPECT_TRUE(reader->attachment(attachment.name));
  }
  // The digests in the index are of the values that went in: test_vectors.py
  // compares them through the reference decoder.
  for (const auto level : {cfck::VerifyLevel::kHashes, cfck::VerifyLevel::kDeep}) {
    const auto report = reader->verify(level);
    ASSERT_TRUE(report) << report.error().to_string();
    for (const cfck::Error& problem : report->problems) {
      ADD_FAILURE() << problem.to_string();
    }
  }
}

TEST(Vectors, AreReadWhole) {
  const json vectors = manifest("/manifest.json")["vectors"];
  ASSERT_GT(vectors.size(), 20U);
  for (const json& entry : vectors) {
    expect_vector(entry);
  }
}

// Those that name their base find it beside them.
TEST(Vectors, FindTheirBases) {
  const json vectors = manifest("/manifest.json")["vectors"];
  std::size_t n_found = 0;
  for (const json& entry : vectors) {
    if (!entry.contains("base")) {
      continue;
    }
    SCOPED_TRACE(entry["file"]);
    const auto reader = cfck::Reader::open(kFolder + "/" + entry["file"].get<std::string>());
    ASSERT_TRUE(reader) << reader.error().to_string();
    const auto checked = reader->check_base();
    if (entry["base_name"].get<std::string>().empty()) {
      ASSERT_FALSE(checked);
      EXPECT_EQ(checked.error().code, ErrorCode::kMissingBase);
      continue;
    }
    EXPECT_TRUE(checked) << checked.error().to_string();
    for (const json& expected : entry["tensors"]) {
      expect_record(*reader, expected);
    }
    ++n_found;
  }
  EXPECT_GE(n_found, 4U);
}

// Returns the error that `entry` promises, or nullopt if there is none.
std::optional<cfck::Error> find_error(const json& entry, const cfck::MemorySource& source) {
  const auto at = entry["at"].get<std::string>();
  auto reader = cfck::Reader::open(source, options_of(entry));
  if (at == "open") {
    return reader ? std::nullopt : std::optional(reader.error());
  }
  if (!reader) {
    ADD_FAILURE() << "does not open: " << reader.error().to_string();
    return std::nullopt;
  }
  if (at == "attachment") {
    const auto result = reader->attachment(reader->attachments()[0].name);
    return result ? std::nullopt : std::optional(result.error());
  }
  const auto name = entry["record"].get<std::string>();
  if (at == "verify") {
    const auto report = reader->verify(cfck::VerifyLevel::kDeep);
    const bool found = report && report->problems.size() == 1;
    return found ? std::optional(report->problems[0]) : std::nullopt;
  }
  const cfck::Record* record = reader->find(name);
  if (record == nullptr) {
    return std::nullopt;
  }
  // A record above the limit is refused before a byte of `out` is touched, so
  // that it need not be there.
  std::vector<std::byte> out(std::min<std::uint64_t>(record->decoded_bytes, 1U << 20));
  const auto result = reader->read(*record, cfck::MutableBytes(out.data(), record->decoded_bytes));
  return result ? std::nullopt : std::optional(result.error());
}

TEST(BrokenVectors, AreRefusedWithTheRightError) {
  const json broken = manifest("/broken/manifest.json")["broken"];
  ASSERT_GT(broken.size(), 100U);
  for (const json& entry : broken) {
    SCOPED_TRACE(entry.dump());
    const std::vector<std::byte> bytes = bytes_of("/broken/" + entry["file"].get<std::string>());
    const cfck::MemorySource source(bytes);
    const auto error = find_error(entry, source);
    if (!error) {
      ADD_FAILURE() << "no error";
      continue;
    }
    EXPECT_EQ(cfck::error_code_name(error->code), entry["code"].get<std::string>())
        << error->to_string();
    EXPECT_FALSE(error->message.empty());
  }
}

// A record that cannot be read does not keep the others from being read.
TEST(BrokenVectors, OtherRecordsOfUnknownIdsAreReadable) {
  for (const char* name : {"unknown_dtype", "unknown_codec", "unknown_entropy_stage",
                           "unknown_scan", "raw_tag", "chunk_damaged"}) {
    SCOPED_TRACE(name);
    const std::vector<std::byte> bytes = bytes_of(std::string("/broken/") + name + ".cfck");
    const cfck::MemorySource source(bytes);
    auto reader = cfck::Reader::open(source);
    ASSERT_TRUE(reader) << reader.error().to_string();
    const cfck::Record* record = reader->find("q");
    ASSERT_NE(record, nullptr);
    std::vector<std::byte> out(record->decoded_bytes);
    EXPECT_TRUE(reader->read(*record, out));
    EXPECT_EQ(out, (std::vector<std::byte>{std::byte{0x21}, std::byte{0x43}}));
  }
}

}  // namespace
