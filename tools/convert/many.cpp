// Several inputs of one call: each is converted by itself, and none keeps the others from it.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "cfck/options.hpp"
#include "tools/convert/convert.hpp"
#include "tools/convert/report.hpp"
#include "tools/output/interrupt.hpp"
#include "tools/output/standard_streams.hpp"

namespace cfck::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxListBytes = std::size_t{256} << 20;

struct Task {
  ConvertOptions options;
  std::uint64_t decoded_bytes = 0;
  std::optional<Result<ConvertReport>> result;  // as soon as there is one
  bool is_skipped = false;                      // its output is there
  std::vector<std::string> outdated;            // files that an output folder lacks, or are older
  double seconds = 0;

  bool is_settled() const { return result.has_value() || is_skipped; }
};

// The text of a list of paths: a line each, or in NUL bytes, as find -print0 writes it, where paths
// have line breaks.
std::vector<std::string> split_list(const std::string& text) {
  const char end = text.find('\0') == std::string::npos ? '\n' : '\0';
  std::vector<std::string> paths;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t stop = std::min(text.find(end, begin), text.size());
    std::size_t length = stop - begin;
    if (end == '\n' && length > 0 && text[stop - 1] == '\r') --length;
    if (length > 0) paths.push_back(text.substr(begin, length));
    begin = stop + 1;
  }
  return paths;
}

Result<std::vector<std::string>> read_list(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::vector<char> buffer(std::size_t{1} << 16);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         file.gcount() > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > kMaxListBytes) {
      return limit_exceeded("the list '" + escaped(path) + "' is too long for a list of paths");
    }
  }
  if (!file.eof()) return io_error("cannot read the list '" + escaped(path) + "'");
  std::vector<std::string> paths = split_list(text);
  if (paths.empty()) return invalid_argument("the list '" + escaped(path) + "' names no input");
  return paths;
}

Result<std::vector<Task>> list_tasks(const ConvertOptions& options) {
  std::vector<std::string> inputs;
  if (!options.input.empty()) inputs.push_back(options.input);
  inputs.insert(inputs.end(), options.more_inputs.begin(), options.more_inputs.end());
  if (!options.files_from.empty()) {
    CFCK_TRY_ASSIGN(const auto listed, read_list(options.files_from));
    inputs.insert(inputs.end(), listed.begin(), listed.end());
  }
  std::vector<Task> tasks;
  for (std::string& input : inputs) {
    Task task{options, 0, {}, false, {}, 0};
    task.options.input = std::move(input);
    if (options.encode.threads == 0 && options.jobs > 1) {
      task.options.encode.threads = std::max(1U, default_thread_count() / options.jobs);
    }
    tasks.push_back(std::move(task));
  }
  return tasks;
}

std::string canonical(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(path, error);
  return error ? path : real.string();
}

// Returns the time at which the file, or any file of the folder, was last written to.
fs::file_time_type last_written(const std::string& path) {
  std::error_code error;
  auto last = fs::file_time_type::min();
  if (!fs::is_directory(path, error)) {
    const auto time = fs::last_write_time(path, error);
    return error ? last : time;
  }
  for (fs::recursive_directory_iterator file(path, error), end; !error && file != end;
       file.increment(error)) {
    std::error_code ignored;
    if (!file->is_regular_file(ignored)) continue;
    if (const auto time = file->last_write_time(ignored); !ignored) last = std::max(last, time);
  }
  return last;
}

// Decides about an input whose output may be there already. Where it fails to read the input, the
// conversion says why.
void skip_existing(Task& task, const std::string& output) {
  ConvertOptions& options = task.options;
  std::error_code ignored;
  if (!(options.skip_existing || options.newer) || !fs::exists(output, ignored)) return;
  // A folder is no file: the conversion says so, and writes nothing into it.
  const bool is_file = !options.max_shard_bytes && makes_file(options);
  if (is_file && fs::is_directory(output, ignored)) return;
  const bool is_folder_to_folder =
      is_folder(options.input) && is_folder(output) && !options.max_shard_bytes;
  if (is_folder_to_folder) {
    if (auto outdated = outdated_in_output(options)) {
      task.outdated = std::move(outdated->names);
      // A target in bytes applies to all files together.
      const auto target = error_target(options.encode);
      const bool has_target = !target || *target;
      options.only_outdated = !task.outdated.empty() && outdated->one_by_one && !has_target;
      task.is_skipped = task.outdated.empty() || (!options.newer && !options.only_outdated);
    } else {
      task.is_skipped = !options.newer;
    }
  } else {
    task.is_skipped = !options.newer || last_written(options.input) <= last_written(output);
  }
  if (!task.is_skipped) options.force = true;  // files of the folder that are current stay
  options.output = output;
}

// Returns the bytes that the conversion will go through.
std::uint64_t plan_one(Task& task) {
  auto plan = plan_conversion(task.options);
  if (!plan) {
    Error error = std::move(plan).error();
    if (error.code == ErrorCode::kExists) {
      error.message +=
          "; --skip-existing skips inputs whose output exists, and --newer those whose output is "
          "not older";
    }
    task.result.emplace(std::move(error));
    return 0;
  }
  task.options.output = plan->output;
  task.decoded_bytes = plan->decoded_bytes;
  return plan->decoded_bytes * (task.options.verify ? 2 : 1);
}

// Finds out names and sizes, and that no output is that of two inputs, or an input itself. What is
// wrong is the result of the task.
std::uint64_t plan_all(std::vector<Task>& tasks) {
  std::set<std::string> inputs;
  for (const Task& task : tasks) inputs.insert(canonical(task.options.input));
  std::map<std::string, std::string> input_of;  // by output
  std::uint64_t total_bytes = 0;
  for (Task& task : tasks) {
    const auto output = conversion_output(task.options);
    if (!output) {
      task.result.emplace(output.error());
      continue;
    }
    const std::string place = canonical(*output);
    const auto [other, is_new] = input_of.emplace(place, task.options.input);
    if (!is_new) {
      task.result.emplace(invalid_argument(fmt::format(
          "its output would be '{}', which is that of '{}' too; {}convert it by itself, "
          "with another output",
          escaped(*output), escaped(other->second),
          task.options.output_folder.empty() || task.options.parents
              ? ""
              : "keep the folders of inputs with --parents, or ")));
    } else if (inputs.contains(place)) {
      task.result.emplace(invalid_argument(fmt::format(
          "its output would be '{}', which is to be converted too; choose another --output-dir",
          escaped(*output))));
    } else {
      skip_existing(task, *output);
      if (!task.is_skipped) total_bytes += plan_one(task);
    }
  }
  return total_bytes;
}

// With --parents: makes the folders above an output, and removes those that stay empty.
class MadeParents {
 public:
  explicit MadeParents(const ConvertOptions& options) {
    if (!options.parents || options.dry_run) return;
    folder_ = fs::path(options.output).parent_path();
    top_ = options.output_folder;
    fs::create_directories(folder_, error_);
  }
  ~MadeParents() {
    std::error_code error;
    for (fs::path folder = folder_; !folder.empty() && folder != top_ && !error;
         folder = folder.parent_path()) {
      if (!fs::is_empty(folder, error) || error) break;
      fs::remove(folder, error);
    }
  }
  MadeParents(const MadeParents&) = delete;
  MadeParents& operator=(const MadeParents&) = delete;

  Result<void> made() const {
    if (!error_) return {};
    return io_error("cannot create the folder '" + escaped(folder_.string()) +
                    "': " + error_.message());
  }

 private:
  fs::path folder_;
  fs::path top_;
  std::error_code error_;
};

// Threads that take one task after another.
class Jobs {
 public:
  Jobs(std::vector<Task>& tasks, unsigned n_jobs, ProgressBar& bar) : tasks_(tasks), bar_(bar) {
    const std::size_t n_threads = std::clamp<std::size_t>(n_jobs, 1, tasks.size());
    for (std::size_t i = 0; i < n_threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Jobs() {
    for (std::thread& thread : threads_) thread.join();
  }
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  // Waits until the task has a result.
  void wait_for(const Task& task) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return task.is_settled(); });
  }

 private:
  void work() {
    for (std::size_t i = next_++; i < tasks_.size(); i = next_++) {
      Task& task = tasks_[i];
      if (task.is_settled()) continue;
      const auto begin = std::chrono::steady_clock::now();
      auto result = run(task);
      const std::lock_guard<std::mutex> lock(mutex_);
      task.seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      task.result.emplace(std::move(result));
      changed_.notify_all();
    }
  }

  Result<ConvertReport> run(const Task& task) {
    if (interrupt_signal() != 0) return cancelled();
    try {
      MadeParents parents(task.options);
      CFCK_TRY(parents.made());
      return convert_input(task.options, {false, &bar_});
    } catch (const std::bad_alloc&) {
      return Error{ErrorCode::kOutOfMemory, "not enough memory; try --jobs 1 --threads 1", {}, {}};
    }
  }

  std::vector<Task>& tasks_;
  ProgressBar& bar_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
};

struct Failure {
  std::string input;
  Error error;
};

// Counts what became of all inputs.
struct BatchTotals {
  std::size_t n_inputs = 0;
  std::size_t n_skipped = 0;
  std::uint64_t input_bytes = 0;  // of those that were converted
  std::uint64_t output_bytes = 0;
  bool is_dry_run = false;
  std::vector<Failure> failures;

  std::size_t n_converted() const { return n_inputs - n_skipped - failures.size(); }
};

// Reports in the order of the command line. Returns the exit code.
int report_task(const Task& task, Console& console, BatchTotals& totals) {
  if (task.is_skipped) {
    ++totals.n_skipped;
    report_skipped(console, task.options, task.outdated);
    return kExitOk;
  }
  const auto& result = *task.result;
  const auto reported = result ? report_conversion(console, task.options, *result, task.seconds,
                                                   ReportedAs::kOneOfMany)
                               : result.error();
  if (!reported) {
    totals.failures.push_back({task.options.input, reported.error()});
    return fail_conversion(console, reported.error(), task.options.input);
  }
  if (task.options.only_outdated && !console.json()) {
    console.say(fmt::format("  only what '{}' lacked{} was converted: {} {}\n",
                            escaped(task.options.output),
                            task.options.newer ? ", or had older," : "", task.outdated.size(),
                            task.outdated.size() == 1 ? "file" : "files"));
  }
  for (const ConvertedFile& file : result->files) {
    totals.input_bytes += file.input_bytes;
    totals.output_bytes += file.output_bytes;
  }
  return kExitOk;
}

void print_summary(Console& console, const BatchTotals& totals, double seconds) {
  const std::vector<Failure>& failures = totals.failures;
  const std::size_t n_inputs = totals.n_inputs;
  if (console.json()) {
    nlohmann::ordered_json json{{"schema_version", 1},
                                {"n_inputs", n_inputs},
                                {"n_converted", totals.n_converted()},
                                {"n_skipped", totals.n_skipped},
                                {"input_bytes", totals.input_bytes},
                                {"output_bytes", totals.output_bytes},
                                {"failed", nlohmann::ordered_json::array()}};
    for (const Failure& failure : failures) {
      json["failed"].push_back({{"input", json_text(failure.input)},
                                {"code", error_code_name(failure.error.code)},
                                {"exit_code", exit_code(failure.error.code)}});
    }
    console.print(json.dump(-1, ' ', true) + "\n");
  }
  std::string text = fmt::format("{} of {} {} converted", totals.n_converted(), n_inputs,
                                 n_inputs == 1 ? "input" : "inputs");
  if (totals.n_converted() > 0) {
    text += fmt::format(" ({} -> {})", human_bytes(totals.input_bytes),
                        human_bytes(totals.output_bytes));
  }
  if (totals.n_skipped > 0) text += fmt::format(", {} skipped", totals.n_skipped);
  if (!failures.empty()) text += fmt::format(", {} failed", failures.size());
  console.say(fmt::format("{} in {:.2f} s\n",
                          totals.is_dry_run ? "dry run: nothing was written; done" : "done",
                          seconds));
  console.say(text + "\n");
  if (failures.empty()) return;
  std::string names;
  for (const Failure& failure : failures) names += "\n  " + escaped(failure.input);
  console.complain(Error{ErrorCode::kInvalidArgument,
                         fmt::format("{} of {} {} not converted:{}", failures.size(), n_inputs,
                                     n_inputs == 1 ? "input" : "inputs", names),
                         {},
                         {}},
                   {});
}

}  // namespace

int convert_many(const ConvertOptions& options, Console& console) {
  const auto begin = std::chrono::steady_clock::now();
  auto tasks = list_tasks(options);
  if (!tasks) return console.fail(tasks.error());
  bool made_folder = false;
  if (!options.output_folder.empty() && !options.dry_run) {
    std::error_code error;
    made_folder = fs::create_directories(options.output_folder, error);
    if (error) {
      return console.fail(io_error("cannot create the folder '" + escaped(options.output_folder) +
                                   "': " + error.message()));
    }
  }
  ProgressBar bar(console.shows_progress(), plan_all(*tasks));
  BatchTotals totals;
  totals.n_inputs = tasks->size();
  int code = kExitOk;
  {
    Jobs jobs(*tasks, options.jobs, bar);
    for (const Task& task : *tasks) {
      jobs.wait_for(task);
      if (interrupt_signal() != 0) break;
      bar.without_bar([&] {
        const int result = report_task(task, console, totals);
        code = worse_exit_code(code, result);
      });
    }
  }
  const auto is_done = [](const Task& task) { return task.result && *task.result; };
  const auto n_done = std::count_if(tasks->begin(), tasks->end(), is_done);
  if (made_folder && n_done == 0 && totals.n_skipped == 0) {
    std::error_code ignored;
    fs::remove(options.output_folder, ignored);
  }
  if (const int number = interrupt_signal(); number != 0) {
    console.warn(fmt::format("interrupted; {} of {} {} converted", n_done, tasks->size(),
                             tasks->size() == 1 ? "input was" : "inputs were"));
    return kExitSignal + number;
  }
  totals.is_dry_run = options.dry_run;
  print_summary(console, totals,
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return code;
}

}  // namespace cfck::tools
