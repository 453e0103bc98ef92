// The tables of ids in spec/format.md agree with the code.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cfck/cfck.hpp"

namespace {

using Row = std::vector<std::string>;

std::string trimmed(const std::string& cell) {
  const auto first = cell.find_first_not_of(" `");
  const auto last = cell.find_last_not_of(" `");
  return first == std::string::npos ? "" : cell.substr(first, last - first + 1);
}

// The rows of the table whose first line starts with `header`.
std::vector<Row> table(const std::string& header) {
  std::ifstream page(CFCK_FORMAT_PAGE);
  std::vector<Row> rows;
  std::string line;
  while (std::getline(page, line) && line.rfind(header, 0) != 0) {
  }
  std::getline(page, line);  // the rule under the header
  while (std::getline(page, line) && line.rfind('|', 0) == 0) {
    std::istringstream cells(line.substr(1));
    Row& row = rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, '|');) {
      row.push_back(trimmed(cell));
    }
  }
  return rows;
}

TEST(FormatPage, Dtypes) {
  const std::vector<Row> rows = table("| id | name | bits |");
  ASSERT_EQ(rows.size(), 11U);
  std::size_t n_known = 0;
  for (unsigned id = 0; id < 256; ++id) {
    n_known += cfck::bits_per_element(static_cast<cfck::DType>(id)) != 0 ? 1 : 0;
  }
  EXPECT_EQ(n_known, 2 * rows.size());
  for (const Row& row : rows) {
    for (const std::size_t column : {0U, 4U}) {
      const auto dtype = static_cast<cfck::DType>(std::stoi(row.at(column)));
      EXPECT_EQ(cfck::dtype_name(dtype), row.at(column + 1));
      EXPECT_EQ(std::to_string(cfck::bits_per_element(dtype)), row.at(column + 2));
      EXPECT_EQ(cfck::dtype_from_name(row.at(column + 1)), dtype);
    }
  }
}

TEST(FormatPage, CodecsAndEntropyStages) {
  const std::vector<Row> codecs = table("| codec | name |");
  ASSERT_EQ(codecs.size(), 6U);
  for (const Row& row : codecs) {
    EXPECT_EQ(cfck::codec_name(static_cast<cfck::CodecId>(std::stoi(row.at(0)))), row.at(1));
  }
  EXPECT_EQ(cfck::codec_name(static_cast<cfck::CodecId>(100)), "unknown");
  const std::vector<Row> stages = table("| entropy stage | name |");
  ASSERT_EQ(stages.size(), 3U);
  for (const Row& row : stages) {
    EXPECT_EQ(cfck::entropy_name(static_cast<cfck::EntropyId>(std::stoi(row.at(0)))), row.at(1));
  }
  EXPECT_EQ(cfck::entropy_name(static_cast<cfck::EntropyId>(stages.size())), "unknown");
  const std::vector<Row> scans = table("| scan | name |");
  ASSERT_EQ(scans.size(), 1U);
  EXPECT_EQ(scans[0].at(0), std::to_string(static_cast<int>(cfck::ScanId::kStorageOrder)));
}

TEST(FormatPage, Kinds) {
  const std::vector<Row> rows = table("| kind | name | its values |");
  const std::vector<std::pair<cfck::RecordKind, std::string>> kinds = {
      {cfck::RecordKind::kChunked, "chunked"},
      {cfck::RecordKind::kPacked, "packed"},
      {cfck::RecordKind::kAlias, "alias"},
      {cfck::RecordKind::kDuplicate, "duplicate"}};
  ASSERT_EQ(rows.size(), kinds.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at(0), std::to_string(static_cast<int>(kinds[i].first)));
    EXPECT_EQ(rows[i].at(1), kinds[i].second);
  }
}

TEST(FormatPage, Version) {
  std::ifstream page(CFCK_FORMAT_PAGE);
  std::string title;
  std::getline(page, title);
  EXPECT_EQ(title, "# The cfck file format, version " + std::to_string(cfck::kFormatMajor) + "." +
                       std::to_string(cfck::kFormatMinor));
}

}  // namespace
