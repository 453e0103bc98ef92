#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.hpp"
#include "cfck/update.hpp"
#include "model/folder/model_files.hpp"
#include "model/formats/archive_format.hpp"
#include "model/formats/foreign_formats.hpp"
#include "tools/inspect/inspect.hpp"
#include "tools/output/interrupt.hpp"
#include "tools/output/left_out.hpp"
#include "tools/output/progress_bar.hpp"
#include "tools/output/watched_files.hpp"

namespace cfck::tools {
namespace {

using Json = nlohmann::ordered_json;

// Bytes that are read and written for each byte of a file: it is read to be checked and to be
// copied, and then the copy is written.
constexpr std::uint64_t kPassesOfCopy = 3;

std::uint64_t size_of(const std::string& path) {
  std::error_code error;
  const auto n_bytes = std::filesystem::file_size(path, error);
  return error ? 0 : n_bytes;
}

struct Compacted {
  std::uint64_t n_bytes = 0;  // freed
  bool had_base = false;
};

Result<Compacted> compact_checked(const std::string& path, const CompactOptions& given,
                                  bool show_progress) {
  {
    CFCK_TRY_ASSIGN(const auto source, open_file(path));
    CFCK_TRY_ASSIGN(const model::ArchiveFormat* format, model::format_of(*source));
    if (!format->encodes) {
      return unsupported("only .cfck files can be compacted");
    }
  }
  CFCK_TRY_ASSIGN(DecodeOptions options, given.reading.decode());
  options.threads = given.threads;
  bool had_base = false;
  {
    CFCK_TRY_ASSIGN(const Reader reader, Reader::open(path, options));
    had_base = reader.needs_base();
  }
  ProgressBar bar(show_progress, kPassesOfCopy * size_of(path));
  bar.start("compacting " + path.substr(path.rfind('/') + 1));
  WatchedFiles files([&](std::uint64_t n_bytes) { bar.advance(n_bytes); });
  CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, compact(path, options, files));
  return Compacted{n_bytes, had_base};
}

int compact_model(const std::string& path, const CompactOptions& options, Console& console) {
  const auto found = model::model_files(path);
  if (!found) return console.fail(found.error(), path);
  for (const std::string& file : found->paths) {
    const std::uint64_t before_bytes = size_of(file);
    const auto freed = compact_checked(file, options, console.shows_progress());
    if (const int number = interrupt_signal(); !freed && number != 0) {
      console.warn("interrupted; '" + escaped(file) + "' is as it was");
      return kExitSignal + number;
    }
    if (!freed) return console.fail(freed.error(), file);
    if (console.json()) {
      const Json json{{"schema_version", 1},
                      {"file", json_text(file)},
                      {"freed_bytes", freed->n_bytes},
                      {"had_base", freed->had_base}};
      console.print(json.dump(-1, ' ', true) + "\n");
    }
    if (freed->had_base) {
      console.say(fmt::format("{}: {} -> {}, it stands alone now\n", escaped(file),
                              human_bytes(before_bytes), human_bytes(size_of(file))));
    } else {
      console.say(fmt::format("{}: {} freed\n", escaped(file), human_bytes(freed->n_bytes)));
    }
  }
  return kExitOk;
}

Result<RepairReport> repair_watched(const RepairOptions& options, bool show_progress) {
  CFCK_TRY_ASSIGN(DecodeOptions decode, options.reading.decode());
  decode.threads = options.threads;
  ProgressBar bar(show_progress, kPassesOfCopy * size_of(options.damaged));
  bar.start("recovering " + options.damaged.substr(options.damaged.rfind('/') + 1));
  WatchedFiles files([&](std::uint64_t n_bytes) { bar.advance(n_bytes); });
  return repair(options.damaged, options.output, decode, files);
}

// Error: kUnsupported for a file that is whole, or damaged, as one of another format. A .cfck file
// may be damaged anywhere.
Result<void> check_repairable(const std::string& path) {
  const auto source = open_file(path);
  if (!source) return {};  // repair() says why
  CFCK_TRY(model::check_no_index(path));
  CFCK_TRY_ASSIGN(const std::string head, model::head_of(**source));
  const model::ArchiveFormat* const format = model::recognised(head);
  const bool is_other =
      format != nullptr ? !format->encodes : model::foreign_format(head, path).has_value();
  if (!is_other) return {};
  return unsupported("only .cfck files can be repaired");
}

}  // namespace

int run_compact(const CompactOptions& options, Console& console) {
  catch_interrupts();
  int code = kExitOk;
  for (const std::string& path : options.paths) {
    warn_of_other_models(console, path, "not compacted");
    const int result = compact_model(path, options, console);
    code = worse_exit_code(code, result);
    if (interrupt_signal() != 0) return result;
  }
  return code;
}

int run_repair(const RepairOptions& options, Console& console) {
  catch_interrupts();
  if (const auto repairable = check_repairable(options.damaged); !repairable) {
    return console.fail(repairable.error(), options.damaged);
  }
  const auto report = repair_watched(options, console.shows_progress());
  if (const int number = interrupt_signal(); !report && number != 0) {
    console.warn("interrupted; nothing was written");
    return kExitSignal + number;
  }
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
  console.say(fmt::format("{} -> {}: generation {}, {} {} kept, {} lost\n",
                          escaped(options.damaged), escaped(options.output), report->generation,
                          report->n_records, report->n_records == 1 ? "record" : "records",
                          report->lost.size()));
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
