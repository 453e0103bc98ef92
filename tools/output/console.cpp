#include "tools/output/console.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/messages.hpp"
#include "base/text.hpp"

namespace cfck::tools {
namespace {

constexpr std::size_t kFlushBytes = std::size_t{1} << 20;

bool decide_color(ColorChoice choice, int descriptor) {
  if (choice != ColorChoice::kAuto) return choice == ColorChoice::kAlways;
  // no-color.org: any value that is not empty turns colours off.
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* terminal = std::getenv("TERM");
  return ::isatty(descriptor) != 0 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

// Returns false if the descriptor takes no more.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n_bytes = ::write(descriptor, text.data(), text.size());
    if (n_bytes < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(n_bytes));
  }
  return true;
}

std::string scaled(std::uint64_t value, std::string_view unit) {
  static constexpr std::string_view kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  auto scaled_value = static_cast<double>(value);
  std::size_t prefix = 0;
  // 999.5 would be shown as 1000 in three digits.
  while (scaled_value >= 999.5) {
    scaled_value /= 1000;
    ++prefix;
  }
  const int decimals = prefix == 0 || scaled_value >= 99.95 ? 0 : scaled_value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}{}", scaled_value, decimals, kPrefixes[prefix], unit);
}

}  // namespace

int exit_code(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kCancelled:
      return kExitUsage;
    case ErrorCode::kNotFound:
    case ErrorCode::kIo:
    case ErrorCode::kMissingBase:
      return kExitIo;
    case ErrorCode::kTruncated:
    case ErrorCode::kCorrupt:
      return kExitMalformed;
    case ErrorCode::kChecksum:
      return kExitChecksum;
    case ErrorCode::kUnsupported:
      return kExitUnsupported;
    case ErrorCode::kLimitExceeded:
    case ErrorCode::kOutOfMemory:
      return kExitLimit;
    case ErrorCode::kExists:
      return kExitExists;
    case ErrorCode::kInternal:
      break;
  }
  return kExitBug;
}

int worse_exit_code(int a, int b) noexcept {
  // From the best to the worst; what is not listed is a signal, which ends everything.
  static constexpr int kOrder[] = {kExitOk,          kExitDifference, kExitExists, kExitUsage,
                                   kExitUnsupported, kExitLimit,      kExitIo,     kExitChecksum,
                                   kExitMalformed,   kExitBug};
  const auto* const rank_a = std::find(std::begin(kOrder), std::end(kOrder), a);
  const auto* const rank_b = std::find(std::begin(kOrder), std::end(kOrder), b);
  return rank_a < rank_b ? b : a;
}

Console::Console(std::string program, ConsoleOptions options)
    : program_(std::move(program)),
      options_(options),
      progress_(!options.quiet && ::isatty(STDERR_FILENO) != 0),
      color_out_(decide_color(options.color, STDOUT_FILENO)),
      color_err_(decide_color(options.color, STDERR_FILENO)),
      out_(STDOUT_FILENO) {
  // These are errors of writing then: what is half written is removed.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

void Console::say(std::string_view text) {
  if (!options_.quiet && !options_.json) print(text);
}

void Console::print(std::string_view text) {
  pending_ += names_.empty() ? std::string(text) : with_names(text);
  if (pending_.size() >= kFlushBytes) flush();
}

std::string Console::bold(std::string_view text) const {
  return color_out_ ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

int Console::complain(const Error& error, const std::string& path) {
  const char* label = color_err_ ? "\x1b[31merror:\x1b[0m" : "error:";
  write_all(STDERR_FILENO, fmt::format("{}: {} {}\n", program_, label,
                                       with_names(with_path(error, path).to_string())));
  return exit_code(error.code);
}

int Console::fail(const Error& error, const std::string& path) {
  Error advised = error;
  if (error.code == ErrorCode::kChecksum && error.message.find("again") == std::string::npos) {
    advised.message += "; download the file again, or recover the intact tensors with cfck repair";
  }
  complain(advised, path);
  if (options_.json) {
    nlohmann::ordered_json report{{"schema_version", 1}};
    if (!path.empty()) report["file"] = json_text(path);
    std::string line = report.dump(-1, ' ', true);
    line.pop_back();
    print(line + ",\"error\":" + error_json(advised) + "}\n");
  }
  return exit_code(error.code);
}

void Console::warn(std::string_view message) {
  if (!options_.quiet) warn_of_loss(message);
}

void Console::warn_of_loss(std::string_view message) {
  if (options_.no_warnings) return;
  const char* label = color_err_ ? "\x1b[33mwarning:\x1b[0m" : "warning:";
  write_all(STDERR_FILENO, fmt::format("{} {}\n", label, with_names(without_controls(message))));
}

void Console::show_as(const std::string& path, const std::string& name) {
  names_.emplace_back(path, name);
}

void Console::leave_stdout() {
  out_ = STDERR_FILENO;
  color_out_ = color_err_;
}

std::string Console::with_names(std::string_view text) const {
  std::string shown(text);
  for (const auto& [path, name] : names_) {
    for (std::size_t at = shown.find(path); at != std::string::npos;
         at = shown.find(path, at + name.size())) {
      shown.replace(at, path.size(), name);
    }
  }
  return shown;
}

bool Console::flush() {
  if (!out_failed_ && !write_all(out_, pending_)) {
    out_failed_ = true;
    // It is no error if a reader stops reading early.
    if (errno == EPIPE) {
      out_closed_ = true;
    } else {
      write_all(STDERR_FILENO, fmt::format("{}: error: cannot write to standard output: {}\n",
                                           program_, std::strerror(errno)));
    }
  }
  pending_.clear();
  return !out_failed_;
}

int Console::finish(int code) {
  if (flush()) return code;
  if (out_closed_) return code == kExitOk && carries_file_ ? kExitSignal + SIGPIPE : code;
  return code != kExitOk ? code : kExitIo;
}

std::string human_bytes(std::uint64_t n_bytes) { return scaled(n_bytes, "B"); }

std::string human_count(std::uint64_t count) {
  std::string text = scaled(count, "");
  if (text.back() == ' ') text.pop_back();
  return text;
}

std::string json_text(const std::string& path) { return valid_utf8(path) ? path : escaped(path); }

std::string error_json(const Error& error) {
  nlohmann::ordered_json json{{"code", error_code_name(error.code)},
                              {"message", error.message},
                              {"record", nullptr},
                              {"byte_offset", nullptr}};
  if (!error.record.empty()) json["record"] = error.record;
  if (error.byte_offset) json["byte_offset"] = *error.byte_offset;
  return json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace cfck::tools
