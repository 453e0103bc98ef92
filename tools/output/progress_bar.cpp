#include "tools/output/progress_bar.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "tools/output/console.hpp"
#include "tools/output/terminal.hpp"

namespace cfck::tools {
namespace {

constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::size_t kBarCells = 24;
constexpr double kSecondsBeforeEta = 0.5;

double share_of(std::uint64_t done, std::uint64_t total) {
  return total == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
}

std::string drawn_bar(double share) {
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kBarCells));
  return fmt::format("[{:=<{}}{: <{}}] {:3.0f}%", "", filled, "", kBarCells - filled, share * 100);
}

void put(const std::string& text) {
  // A bar that cannot be drawn is no reason to stop.
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

std::size_t line_columns() { return terminal_columns(STDERR_FILENO).value_or(80) - 1; }

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::max(0.0, seconds + 0.5));
  const std::uint64_t hours = whole / 3600;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

ProgressBar::ProgressBar(bool enabled, std::uint64_t total_bytes)
    : enabled_(enabled), total_bytes_(total_bytes), created_(Clock::now()), begin_(created_) {}

ProgressBar::ProgressBar(ProgressBar& whole, std::uint64_t total_bytes)
    : whole_(&whole),
      enabled_(false),
      total_bytes_(total_bytes),
      created_(Clock::now()),
      begin_(created_) {}

ProgressBar::~ProgressBar() {
  if (whole_ != nullptr && told_bytes_ < total_bytes_) {
    whole_->add_of_part(total_bytes_ - told_bytes_, label_);
  }
  erase();
}

void ProgressBar::start(std::string label) {
  before_bytes_ += std::exchange(part_bytes_, 0);
  label_ = escaped(label);
}

void ProgressBar::update(std::uint64_t done_bytes, std::uint64_t compressed_bytes) {
  part_bytes_ = done_bytes;
  if (whole_ != nullptr) {
    const std::uint64_t done = std::min(total_bytes_, before_bytes_ + part_bytes_);
    const std::uint64_t told = std::exchange(told_bytes_, std::max(told_bytes_, done));
    whole_->add_of_part(told_bytes_ - told, label_);
    return;
  }
  if (is_due()) draw(done_bytes, compressed_bytes);
}

void ProgressBar::advance(std::uint64_t n_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  update(part_bytes_ + n_bytes, 0);
}

void ProgressBar::add_of_part(std::uint64_t n_bytes, const std::string& label) {
  const std::lock_guard<std::mutex> lock(mutex_);
  label_ = label;
  part_bytes_ += n_bytes;
  if (is_due()) draw(part_bytes_, 0);
}

void ProgressBar::without_bar(const std::function<void()>& print) {
  const std::lock_guard<std::mutex> lock(mutex_);
  erase();
  print();
}

void ProgressBar::preparing(std::string_view what, std::uint64_t done_bytes,
                            std::uint64_t total_bytes) {
  if (whole_ != nullptr) return whole_->add_of_part(0, label_ + ": " + std::string(what));
  if (!is_due()) return;
  begin_ = drawn_;  // what comes now says nothing of the time that the work itself takes
  put_line(fmt::format("{}  {}: {}, {} so far", drawn_bar(share_of(done_bytes, total_bytes)),
                       label_, what, clock_text(seconds_between(created_, drawn_))));
}

bool ProgressBar::is_due() {
  if (!enabled_) return false;
  const auto now = Clock::now();
  if (now - drawn_ < kRedraw) return false;
  drawn_ = now;
  return true;
}

void ProgressBar::draw(std::uint64_t done_bytes, std::uint64_t compressed_bytes) {
  const std::uint64_t done = before_bytes_ + done_bytes;
  const double seconds = seconds_between(begin_, drawn_);
  const double share = share_of(done, total_bytes_);
  const auto rate = static_cast<std::uint64_t>(static_cast<double>(done) / std::max(seconds, 1e-3));
  std::string line = fmt::format("{}  {}/s", drawn_bar(share), human_bytes(rate));
  // Earlier, the time that is left would be a guess.
  if (seconds >= kSecondsBeforeEta && share > 0 && share < 1) {
    line += "  ETA " + clock_text(seconds * (1 - share) / share);
  }
  if (compressed_bytes > 0) {
    line += fmt::format("  ratio {:.2f}",
                        static_cast<double>(done_bytes) / static_cast<double>(compressed_bytes));
  }
  put_line(line + "  " + label_);
}

void ProgressBar::put_line(std::string line) {
  // A line that wraps could not be erased. It is never cut inside a character.
  std::size_t end = std::min(line.size(), line_columns());
  while (end > 0 && end < line.size() && (line[end] & 0xC0) == 0x80) --end;
  line.resize(end);
  erase();
  put(line);
  visible_ = true;
}

void ProgressBar::erase() {
  if (!visible_) return;
  put("\r" + std::string(line_columns(), ' ') + "\r");
  visible_ = false;
}

}  // namespace cfck::tools
