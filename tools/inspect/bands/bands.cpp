#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "tools/inspect/bands/report.hpp"
#include "tools/inspect/bands/scan.hpp"
#include "tools/inspect/inspect.hpp"
#include "tools/output/interrupt.hpp"
#include "tools/output/left_out.hpp"
#include "tools/output/progress_bar.hpp"

namespace cfck::tools {
namespace {

using Json = nlohmann::ordered_json;

struct BandsReport {
  std::vector<BandReport> tensors;
  std::uint64_t n_others = 0;                           // of other codecs, aliases, duplicates
  std::vector<std::pair<Error, std::string>> failures;  // with the path of the file
  std::vector<Error> problems;  // tensors that cannot be compared with the reference
};

Result<BandsReport> describe_all(const TensorSet& set, const TensorSet* reference,
                                 const std::vector<const StoredTensor*>& selected,
                                 ProgressBar& bar) {
  BandsReport all;
  std::uint64_t done_bytes = 0;
  for (const StoredTensor* tensor : selected) {
    CFCK_TRY(check_interrupt());
    BandReport report;
    report.tensor = tensor;
    report.record = spectral_record(*tensor);
    if (report.record == nullptr) {
      all.n_others += 1;
      continue;
    }
    const StoredTensor* original = nullptr;
    if (reference != nullptr) {
      const auto found = find_original(*reference, *tensor);
      if (found) original = *found;
      if (!found) all.problems.push_back(found.error());
    }
    std::uint64_t tensor_bytes = 0;
    const auto add_done = [&](std::uint64_t n_bytes) {
      tensor_bytes += n_bytes;
      bar.update(done_bytes + tensor_bytes, 0);
    };
    const Result<void> described = describe_bands(set, reference, original, report, add_done);
    CFCK_TRY(check_interrupt());
    if (described) {
      all.tensors.push_back(std::move(report));
    } else {
      all.failures.emplace_back(described.error(), set.path_of(*tensor));
    }
    done_bytes += tensor->n_bytes;
    bar.update(done_bytes, 0);
  }
  return all;
}

void print_json(Console& console, const BandsOptions& options, const BandsReport& all) {
  Json json{{"schema_version", 1}, {"file", json_text(options.path)}};
  if (!options.reference.empty()) json["ref"] = json_text(options.reference);
  json["n_others"] = all.n_others;
  json["problems"] = Json::array();
  for (const auto& [failure, path] : all.failures) {
    json["problems"].push_back(Json::parse(error_json(failure)));
  }
  for (const Error& problem : all.problems) {
    json["problems"].push_back(Json::parse(error_json(problem)));
  }
  json["records"] = Json::array();
  for (const BandReport& report : all.tensors) {
    json["records"].push_back(band_report_json(report));
  }
  console.print(json.dump(-1, ' ', true) + "\n");
}

void print_text(Console& console, const BandsReport& all) {
  for (const BandReport& report : all.tensors) {
    console.print(band_report_text(report, console) + "\n");
  }
  if (all.n_others > 0) {
    console.print(fmt::format("{} {} of another codec, or share the bytes of another tensor\n",
                              all.n_others, all.n_others == 1 ? "tensor is" : "tensors are"));
  }
}

Result<int> bands(const BandsOptions& options, Console& console) {
  CFCK_TRY_ASSIGN(const TensorSet set, TensorSet::open(options.path, options.reading));
  std::optional<TensorSet> reference;
  if (!options.reference.empty()) {
    CFCK_TRY_ASSIGN(reference, TensorSet::open(options.reference, options.reading));
  }
  const auto selected = select_tensors(set, options.patterns);
  if (!selected) return with_path(selected.error(), options.path);
  std::uint64_t total_bytes = 0;
  for (const StoredTensor* tensor : *selected) {
    total_bytes += spectral_record(*tensor) == nullptr ? 0 : tensor->n_bytes;
  }
  std::optional<ProgressBar> bar;
  bar.emplace(console.shows_progress(), total_bytes);
  bar->start("reading");
  CFCK_TRY_ASSIGN(const BandsReport all,
                  describe_all(set, reference ? &*reference : nullptr, *selected, *bar));
  bar.reset();
  if (console.json()) {
    print_json(console, options, all);
  } else {
    print_text(console, all);
  }
  int code = kExitOk;
  for (const auto& [failure, path] : all.failures) {
    const int failed = console.complain(failure, path);
    if (code == kExitOk) code = failed;
  }
  for (const Error& problem : all.problems) console.complain(problem, options.path);
  return code == kExitOk && !all.problems.empty() ? kExitDifference : code;
}

}  // namespace

int run_bands(const BandsOptions& options, Console& console) {
  catch_interrupts();
  warn_of_other_models(console, options.path, "not shown");
  const auto code = bands(options, console);
  if (const int number = interrupt_signal(); number != 0) return kExitSignal + number;
  return code ? *code : console.fail(code.error());
}

}  // namespace cfck::tools
