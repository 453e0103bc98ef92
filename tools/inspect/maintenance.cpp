#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.hpp"
#include "cfck/update.hpp"
#include "model/archive_format.hpp"
#include "model/folder/model_folder.hpp"
#include "tools/inspect/inspect.hpp"

namespace cfck::tools {
namespace {

using Json = nlohmann::ordered_json;

Result<std::uint64_t> compact_checked(const std::string& path, const CompactOptions& given) {
  {
    CFCK_TRY_ASSIGN(const auto source, open_file(path));
    CFCK_TRY_ASSIGN(const model::ArchiveFormat* format, model::format_of(*source));
    if (!format->encodes) {
      return unsupported("only .cfck files can be compacted");
    }
  }
  DecodeOptions options;
  options.threads = given.threads;
  options.limits = given.limits;
  return compact(path, options);
}

int compact_model(const std::string& path, const CompactOptions& options, Console& console) {
  const auto paths = model::tensor_files(path);
  if (!paths) return console.fail(paths.error(), path);
  for (const std::string& file : *paths) {
    const auto freed = compact_checked(file, options);
    if (!freed) return console.fail(freed.error(), file);
    if (console.json()) {
      const Json json{{"schema_version", 1}, {"file", json_text(file)}, {"freed_bytes", *freed}};
      console.print(json.dump(-1, ' ', true) + "\n");
    }
    console.say(fmt::format("{}: {} freed\n", escaped(file), human_bytes(*freed)));
  }
  return kExitOk;
}

}  // namespace

int run_compact(const CompactOptions& options, Console& console) {
  int code = kExitOk;
  for (const std::string& path : options.paths) {
    const int result = compact_model(path, options, console);
    if (code == kExitOk) code = result;
  }
  return code;
}

int run_repair(const RepairOptions& options, Console& console) {
  DecodeOptions decode;
  decode.threads = options.threads;
  decode.limits = options.limits;
  const auto report = repair(options.damaged, options.output, decode);
  if (!report) return console.fail(report.error(), options.damaged);
  if (console.json()) {
    Json json{{"schema_version", 1},
              {"file", json_text(options.damaged)},
              {"output", json_text(options.output)},
              {"generation", report->generation},
              {"end_bytes", report->end_bytes},
              {"n_records", report->n_records},
              {"older", Json::array()},
              {"lost", report->lost}};
    for (const OlderRecord& record : report->older) {
      json["older"].push_back({{"name", record.name}, {"generation", record.generation}});
    }
    console.print(json.dump(-1, ' ', true) + "\n");
  }
  console.say(fmt::format("{} -> {}: generation {}, {} records kept, {} lost\n",
                          escaped(options.damaged), escaped(options.output), report->generation,
                          report->n_records, report->lost.size()));
  for (const OlderRecord& record : report->older) {
    console.warn(fmt::format("damaged, taken from generation {} instead: {}", record.generation,
                             escaped(record.name)));
  }
  for (const std::string& name : report->lost) {
    console.warn(fmt::format("lost: {}", escaped(name)));
  }
  return report->lost.empty() && report->older.empty() ? kExitOk : kExitDifference;
}

}  // namespace cfck::tools
