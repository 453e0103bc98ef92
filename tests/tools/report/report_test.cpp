// cfck report.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <regex>
#include <set>
#include <sstream>

#include "tests/tools/program.hpp"
#include "tests/tools/report/page_check.hpp"

namespace cfck::test {
namespace {

using ::testing::Test;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class Report : public Test {
 protected:
  void make(const std::string& model, std::vector<std::string> options = {}) {
    write_file(original, model);
    options.insert(options.begin(), {"convert", "-f", "-q", original, file});
    const Outcome outcome = run(options);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  // Makes a page, and returns its text.
  std::string report(std::vector<std::string> options, int code = 0) {
    options.insert(options.begin(), {"report", "-f"});
    if (std::find(options.begin(), options.end(), "-o") == options.end()) {
      options.insert(options.end(), {"-o", page});
    }
    const Outcome outcome = run(options);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    const auto output = std::find(options.begin(), options.end(), "-o") + 1;
    return *output == "-" ? outcome.out : read_file(*output);
  }
  static CheckedPage checked(const std::string& html) {
    CheckedPage page = check_page(html);
    EXPECT_TRUE(page.problems.empty()) << page.problems.front();
    return page;
  }

  TemporaryFolder folder;
  std::string original = folder / "model.safetensors";
  std::string file = folder / "small.cfck";
  std::string page = folder / "page.html";
};

TEST_F(Report, NamesEveryTensorAndShowsItsNumbers) {
  make(weights_model(), {"--nmse=-20dB"});
  const CheckedPage html = checked(report({file, "--ref", original}));
  const auto index = run({"inspect", "--json", file}).json();
  const auto stats = run({"stats", "--json", file, "--ref", original}).json();
  for (const auto& row : index["records"]) {
    EXPECT_TRUE(html.has_text(row["name"].get<std::string>())) << row["name"];
  }
  char text[64];
  std::snprintf(text, sizeof text, "%.2f", index["bits_per_weight"].get<double>());
  EXPECT_TRUE(html.has_text(text)) << text;
  for (const auto& record : stats["records"]) {
    if (!record.contains("errors") || record["errors"]["nmse_db"].is_string()) continue;
    std::snprintf(text, sizeof text, "%.1f dB", record["errors"]["nmse_db"].get<double>());
    EXPECT_TRUE(html.has_text(text)) << text;
  }
  // Two treemaps and two charts of the model; histograms of floats that vary.
  EXPECT_GE(html.count("svg"), 4U + 5U);
  EXPECT_TRUE(html.has_text("Values before and after"));
}

TEST_F(Report, SaysWhatTheFileItselfKnows) {
  make(weights_model(), {"--nmse=-20dB"});
  const CheckedPage html = checked(report({file}));
  EXPECT_TRUE(html.has_text("Values"));
  EXPECT_FALSE(html.has_text("Values before and after"));
  const auto rows = run({"inspect", "--json", file}).json()["records"];
  const auto lossy = std::find_if(rows.begin(), rows.end(),
                                  [](const auto& row) { return row.contains("nmse_db"); });
  ASSERT_NE(lossy, rows.end());
  char text[64];
  std::snprintf(text, sizeof text, "%.1f dB", (*lossy)["nmse_db"].template get<double>());
  EXPECT_TRUE(html.has_text(text)) << text;
}

TEST_F(Report, LosslessFilesAndOtherFormats) {
  make(weights_model());
  EXPECT_TRUE(checked(report({file})).has_text("every bit of what was saved"));
  EXPECT_TRUE(checked(report({file, "--ref", original})).has_text("identical"));
  EXPECT_TRUE(checked(report({original})).has_text("a.weight"));
  write_file(original, model_of({}));
  checked(report({original}));
  EXPECT_TRUE(contains(report({original, "-o", folder / "e.md"}), "All 0 tensors"));
}

TEST_F(Report, TensorsThatShareBytesNameTheirBase) {
  const std::string values = bytes_of(weights(4096, 1, 0.1F));
  make(model_of({{"a", "F32", "[64,64]", values}, {"same", "F32", "[64,64]", values}}));
  EXPECT_TRUE(contains(report({file, "-o", folder / "page.md"}), "| bytes of `a` | 0 |"));
  EXPECT_TRUE(checked(report({file})).has_text("bytes of"));
}

TEST_F(Report, BandsOfKernels) {
  make(model_of({{"conv.weight", "F32", "[32,32,3,3]", bytes_of(weights(9216, 1, 0.3F))}}),
       {"--nmse=-15dB", "--steps", "prior"});
  const auto bands = run({"bands", "--json", file}).json()["records"][0]["codings"][0]["bands"];
  ASSERT_EQ(bands.size(), 9U);
  const CheckedPage html = checked(report({file, "--ref", original}));
  EXPECT_TRUE(html.has_text("Bands"));
  const auto n_bars = std::count_if(html.elements.begin(), html.elements.end(), [](const auto& e) {
    return e.name == "title" && e.text.starts_with("band ") && contains(e.text, "bits per weight");
  });
  EXPECT_EQ(n_bars, 18);  // in the section and in the list
  char text[64];
  std::snprintf(text, sizeof text, "band 0 (0,0): %.3f bits per weight",
                bands[0]["bits_per_weight"].get<double>());
  EXPECT_TRUE(std::any_of(html.elements.begin(), html.elements.end(),
                          [&](const auto& e) { return e.text.starts_with(text); }));
}

TEST_F(Report, LayersAreNamesUpToTheirFirstNumber) {
  const std::string four = bytes_of<float>({1, 2, 3, 4});
  make(model_of({{"encoder.layer.3.query.weight", "F32", "[4]", four},
                 {"encoder.layer.3.query.bias", "F32", "[4]", four},
                 {"encoder.layer.30.query.weight", "F32", "[4]", four},
                 {"layer1.0.conv.weight", "F32", "[4]", four},
                 {"pooler.dense.weight", "F32", "[4]", four},
                 {"optimizer/0/exp_avg", "F32", "[4]", four},
                 {"12", "F32", "[4]", four},
                 {".x", "F32", "[4]", four},
                 {"head", "F32", "[4]", four}}));
  const std::string markdown = report({file, "-o", folder / "page.md"});
  for (const char* layer : {"| `encoder.layer.3` | 2 |", "| `encoder.layer.30` | 1 |",
                            "| `layer1.0` | 1 |", "| `pooler.dense` | 1 |", "| `optimizer/0` | 1 |",
                            "| `12` | 1 |", "| `.x` | 1 |", "| `head` | 1 |"}) {
    EXPECT_TRUE(contains(markdown, layer)) << layer;
  }
}

// Names that would be tags, attributes, tables, links, lines or another direction of writing.
const std::vector<std::string> kHostile = {R"(<script>alert(1)</script>)",
                                           R"(\" onload=\"alert(1))",
                                           R"(a'b><img src=x onerror=y>)",
                                           R"(a|b|c)",
                                           R"(`code` ``more``)",
                                           R"(line\nanother\r\n# heading)",
                                           R"(\u202egnp.exe)",
                                           R"([link](http://example.org))",
                                           R"(</style></title></svg>)",
                                           R"(&lt;b&gt; &amp; &#60;)",
                                           R"(**bold** __init__ ~x~)",
                                           R"(<!-- )",
                                           R"(\\| \\)",
                                           R"( spaces )",
                                           R"(- list)",
                                           R"(http://example.org/a.b)",
                                           R"(\u0000\u0007)",
                                           R"(שלום)",
                                           R"(layer.1.<b>x</b>)"};

std::string hostile_model() {
  std::vector<TestTensor> tensors;
  for (std::size_t i = 0; i < kHostile.size(); ++i) {
    tensors.push_back({kHostile[i], "F32", "[64,64]", bytes_of(weights(4096, i + 1, 0.1F))});
  }
  return model_of(tensors, R"("<i>key</i>":"<script>\u202e\n|")");
}

TEST_F(Report, HostileNamesAreTextInHtml) {
  make(hostile_model(), {"--nmse=-20dB"});
  const std::string html = report({file, "--ref", original, "--title", "<script>t</script>",
                                   "--figure", "<b onclick>=\"><script>"});
  const CheckedPage shown = checked(html);
  EXPECT_TRUE(shown.has_text("<script>alert(1)</script>"));
  EXPECT_TRUE(shown.has_text("\" onload=\"alert(1)"));
  EXPECT_TRUE(shown.has_text("line\\nanother\\r\\n# heading"));
  EXPECT_TRUE(shown.has_text("\\u202egnp.exe"));
  EXPECT_TRUE(shown.has_text("&lt;b&gt; &amp; &#60;"));
  EXPECT_TRUE(shown.has_text("<script>t</script>"));
  EXPECT_TRUE(shown.has_text("<b onclick>"));
  EXPECT_TRUE(shown.has_text("שלום"));
  EXPECT_FALSE(contains(html, "\u202e"));
}

TEST_F(Report, HostileNamesAreTextInMarkdown) {
  make(hostile_model(), {"--nmse=-20dB"});
  const std::string text = report({file, "--ref", original, "--title", "# <script> [t](u)",
                                   "--figure", "a|b=c|d", "-o", folder / "page.md"});
  std::size_t n_rows = 0;
  for (const std::string& line : lines_of(text)) {
    if (!line.starts_with("|")) continue;
    const auto n_bars = std::count(line.begin(), line.end(), '|');
    EXPECT_TRUE(n_bars == 3 || n_bars == 4 || n_bars == 5 || n_bars == 7 || n_bars == 8) << line;
    EXPECT_TRUE(line.ends_with("|")) << line;
    n_rows += n_bars == 7;
  }
  EXPECT_EQ(n_rows, kHostile.size() + 2);  // with the heading of the table of all tensors
  // Between backticks every other character stands for itself.
  const std::string outside = std::regex_replace(text, std::regex("`[^`\n]*`"), "");
  for (const char* raw :
       {"<script", "<img", "<!--", "](http", "`code`", "**bold**", "\u202e", "# <", "[t]"}) {
    EXPECT_FALSE(contains(outside, raw)) << raw;
  }
  EXPECT_TRUE(contains(text, "| a&#124;b | **c&#124;d** |"));
  EXPECT_TRUE(contains(text, "<code>a&#124;b&#124;c</code>"));
}

TEST_F(Report, ManyTensorsStayUsable) {
  std::vector<TestTensor> tensors;
  const std::string data = bytes_of(weights(64, 1, 0.1F));
  for (int i = 0; i < 10000; ++i) {
    tensors.push_back({"experts." + std::to_string(i / 50) + ".w" + std::to_string(i % 50), "F32",
                       "[8,8]", bytes_of(weights(64, static_cast<std::uint64_t>(i), 0.1F))});
  }
  make(model_of(tensors));
  const std::string html = report({file, "--ref", original, "--pictures", "100"});
  const CheckedPage checked_page = checked(html);
  std::set<std::string> texts;
  for (const Element& element : checked_page.elements) texts.insert(element.text);
  const auto n_named = static_cast<std::size_t>(
      std::count_if(tensors.begin(), tensors.end(),
                    [&](const TestTensor& tensor) { return texts.contains(tensor.name); }));
  EXPECT_EQ(n_named, tensors.size());
  EXPECT_TRUE(contains(html, "The 100 largest tensors have pictures."));
  EXPECT_LT(html.size(), 6'000'000U);
  // A layer can be folded away with all of its tensors.
  EXPECT_GE(checked_page.count("details"), 200U);
}

TEST_F(Report, IsWrittenWholeOrNotAtAll) {
  make(weights_model());
  write_file(page, "mine");
  const Outcome refused = run({"report", file, "-o", page});
  EXPECT_NE(refused.code, 0);
  EXPECT_TRUE(contains(refused.err, "exists already")) << refused.err;
  EXPECT_TRUE(contains(refused.err, "--force")) << refused.err;
  EXPECT_EQ(read_file(page), "mine");
  EXPECT_EQ(run({"report", file, "-o", page, "--force"}).code, 0);
  EXPECT_TRUE(read_file(page).starts_with("<!DOCTYPE html>"));
  RunOptions small;
  small.max_file_bytes = 20000;
  EXPECT_NE(run({"report", file, "-o", folder / "other.html"}, small).code, 0);
  for (const std::string& name : folder.files()) EXPECT_FALSE(contains(name, "other")) << name;
  EXPECT_EQ(run({"report", file, "-o", file, "--format", "html", "--force"}).code, 2);
  EXPECT_EQ(run({"verify", file}).code, 0);
}

TEST_F(Report, WhereThePageGoes) {
  make(weights_model());
  EXPECT_EQ(run({"report", file}).code, 0);
  EXPECT_TRUE(read_file(folder / "small.report.html").starts_with("<!DOCTYPE html>"));
  EXPECT_EQ(run({"report", file, "--format", "md"}).code, 0);
  EXPECT_TRUE(read_file(folder / "small.report.md").starts_with("# small.cfck"));
  EXPECT_TRUE(report({file, "-o", "-"}).starts_with("<!DOCTYPE html>"));
  EXPECT_TRUE(report({file, "-o", "-", "--format", "md"}).starts_with("# small.cfck"));
  const Outcome unknown = run({"report", file, "-o", folder / "page.txt"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(contains(unknown.err, "--format")) << unknown.err;
  EXPECT_EQ(run({"report", file, "-o", "-", "--json"}).code, 2);
  EXPECT_EQ(run({"report", file, "--format", "pdf"}).code, 2);
  EXPECT_EQ(run({"report", folder / "none.cfck"}).code, 3);
}

TEST_F(Report, ReportsItselfInJson) {
  make(weights_model(), {"--nmse=-20dB"});
  const auto json = run({"report", "--json", file, "--ref", original, "-o", page}).json();
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["format"], "html");
  EXPECT_EQ(json["output_bytes"], read_file(page).size());
  EXPECT_EQ(json["n_records"], 6);
  const auto rows = run({"inspect", "--json", file}).json()["records"];
  EXPECT_EQ(json["n_lossy"], std::count_if(rows.begin(), rows.end(), [](const auto& row) {
              return row.contains("nmse_db");
            }));
  EXPECT_LT(json["nmse_db"], -19.9);
  EXPECT_TRUE(json["problems"].empty());
  const auto stats = run({"stats", "--json", file, "--ref", original}).json();
  EXPECT_EQ(json["total"], stats["total"]);
}

TEST_F(Report, FiguresOfQuality) {
  make(weights_model());
  write_file(folder / "f.json", R"({"cosine": 0.991, "top1": {"before": "91.2 %", "kept": true}})");
  const CheckedPage html =
      checked(report({file, "--figure", "perplexity=1.02x", "--figures", folder / "f.json"}));
  for (const char* text :
       {"perplexity", "1.02x", "cosine", "0.991", "top1 before", "91.2 %", "top1 kept", "true"}) {
    EXPECT_TRUE(html.has_text(text)) << text;
  }
  EXPECT_EQ(run({"report", file, "-o", page, "-f", "--figure", "nothing"}).code, 2);
  for (const char* bad : {"[1]", "{\"a\": [1]}", "{\"a\": null}", "{", ""}) {
    write_file(folder / "f.json", bad);
    const Outcome outcome = run({"report", file, "-o", page, "-f", "--figures", folder / "f.json"});
    EXPECT_EQ(outcome.code, 2) << bad;
    EXPECT_TRUE(contains(outcome.err, "figure")) << outcome.err;
  }
}

TEST_F(Report, AnotherReferenceIsAProblemInThePage) {
  make(weights_model(), {"--max-abs-error", "1e-3"});
  const std::string other = folder / "other.safetensors";
  write_file(other, model_of({{"a.weight", "F32", "[64,64]", bytes_of(weights(4096, 9, 0.1F))},
                              {"b.weight", "F32", "[4096]", bytes_of(weights(4096, 2, 0.1F))},
                              {"c.weight", "F32", "[4]", bytes_of(weights(4, 2, 0.1F))}}));
  const std::string html = report({file, "--ref", other}, 1);
  checked(html);
  EXPECT_TRUE(contains(html, "7 problems"));
  EXPECT_TRUE(contains(html, "values are beyond abs 1e-03"));
  EXPECT_TRUE(contains(html, "F32 [64,64] here, F32 [4096] in the reference"));
  EXPECT_TRUE(contains(html, "only the reference has this tensor"));
  EXPECT_TRUE(contains(html, "the reference has no tensor with this name"));
  EXPECT_TRUE(contains(report({file, "--ref", other, "--common"}, 1), "2 problems"));
}

TEST_F(Report, BoundsAreCheckedAndTargetsAreNot) {
  make(weights_model(), {"--max-abs-error", "1e-3"});
  EXPECT_TRUE(checked(report({file, "--ref", original})).has_text("abs 1e-03, met"));
  EXPECT_TRUE(checked(report({file})).has_text("abs 1e-03"));
  make(weights_model(), {"--nmse=-20dB"});
  EXPECT_TRUE(checked(report({file, "--ref", original})).has_text("file nmse -20.00 dB"));
}

TEST_F(Report, DamagedTensorsAreNamedAndTheOthersShown) {
  make(weights_model());
  const auto rows = run({"inspect", "--json", file}).json();
  std::string bytes = read_file(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x40);
  write_file(file, bytes);
  const int code = run({"verify", "--deep", file}).code;
  ASSERT_NE(code, 0);
  const std::string html = report({file}, code);
  const CheckedPage shown = checked(html);
  EXPECT_TRUE(contains(html, "cannot be read"));
  for (const auto& row : rows["records"]) {
    EXPECT_TRUE(shown.has_text(row["name"].get<std::string>())) << row["name"];
  }
  // The index alone is unharmed.
  checked(report({file, "--index"}));
  EXPECT_EQ(run({"report", file, "--index", "--ref", original, "-o", page, "-f"}).code, 2);
}

TEST_F(Report, ValuesOfEveryKind) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const double most = std::numeric_limits<double>::max();
  make(model_of({{"nan", "F32", "[4]", bytes_of<float>({nan, inf, -inf, 1})},
                 {"only nan", "F32", "[2]", bytes_of<float>({nan, nan})},
                 {"huge", "F64", "[4]", bytes_of<double>({most, -most, 0, 1})},
                 {"tiny", "F64", "[4]", bytes_of<double>({5e-324, 0, 0, 5e-324})},
                 {"zeros", "F32", "[8,8]", std::string(256, '\0')},
                 {"constant", "F32", "[4]", bytes_of<float>({2, 2, 2, 2})},
                 {"ints", "I64", "[4]", bytes_of<std::int64_t>({1, -2, 3, INT64_MAX})},
                 {"bools", "BOOL", "[4]", std::string("\0\1\1\0", 4)},
                 {"scalar", "F32", "[]", bytes_of<float>({3})},
                 {"empty", "F32", "[0,7]", ""},
                 {"complex", "C64", "[8]", bytes_of(weights(16, 3, 1))}}));
  for (const std::vector<std::string>& ref :
       {std::vector<std::string>{}, std::vector<std::string>{"--ref", original}}) {
    std::vector<std::string> options = {file};
    options.insert(options.end(), ref.begin(), ref.end());
    const std::string html = report(options);
    const CheckedPage page_checked = checked(html);
    EXPECT_TRUE(page_checked.has_text("1 NaN, 2 infinite"));
    EXPECT_TRUE(page_checked.has_text("2 NaN"));
    EXPECT_TRUE(page_checked.has_text("all zeros"));
    for (const Element& element : page_checked.elements) {
      if (element.name != "path" && element.name != "rect") continue;
      for (const auto& [name, value] : element.attributes) {
        EXPECT_FALSE(contains(value, "nan") || contains(value, "inf")) << name << "=" << value;
      }
    }
  }
}

TEST_F(Report, FoldersOfShards) {
  const std::string model = folder / "model";
  ASSERT_EQ(::mkdir(model.c_str(), 0777), 0);
  write_file(model + "/model-00001-of-00002.safetensors",
             model_of({{"a.0.w", "F32", "[64,64]", bytes_of(weights(4096, 1, 0.1F))}}));
  write_file(model + "/model-00002-of-00002.safetensors",
             model_of({{"a.1.w", "F32", "[64,64]", bytes_of(weights(4096, 2, 0.1F))}}));
  write_file(model + "/model.safetensors.index.json",
             R"({"metadata":{},"weight_map":{"a.0.w":"model-00001-of-00002.safetensors",)"
             R"("a.1.w":"model-00002-of-00002.safetensors"}})");
  ASSERT_EQ(run({"convert", "-q", model, folder / "small", "--nmse=-20dB"}).code, 0);
  const CheckedPage html = checked(report({folder / "small/", "--ref", model}));
  EXPECT_TRUE(html.has_text("a.0.w"));
  EXPECT_TRUE(html.has_text("a.1.w"));
  EXPECT_TRUE(html.has_text("small"));
}

}  // namespace
}  // namespace cfck::test
