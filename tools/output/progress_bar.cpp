#include "tools/output/progress_bar.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "tools/output/console.hpp"

namespace cfck::tools {
namespace {

constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::size_t kBarCells = 24;

std::size_t terminal_columns() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

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

}  // namespace

ProgressBar::ProgressBar(bool enabled, std::uint64_t total_bytes)
    : enabled_(enabled), total_bytes_(total_bytes), begin_(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() { erase(); }

void ProgressBar::start(std::string label) {
  before_bytes_ += std::exchange(part_bytes_, 0);
  label_ = escaped(label);
}

void ProgressBar::update(std::uint64_t done_bytes, std::uint64_t compressed_bytes) {
  part_bytes_ = done_bytes;
  if (is_due()) draw(done_bytes, compressed_bytes);
}

void ProgressBar::preparing(std::string_view what, std::uint64_t done_bytes,
                            std::uint64_t total_bytes) {
  if (!is_due()) return;
  put_line(fmt::format("{}  {}: {}", drawn_bar(share_of(done_bytes, total_bytes)), label_, what));
}

bool ProgressBar::is_due() {
  if (!enabled_) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now - drawn_ < kRedraw) return false;
  drawn_ = now;
  return true;
}

void ProgressBar::draw(std::uint64_t done_bytes, std::uint64_t compressed_bytes) {
  const std::uint64_t done = before_bytes_ + done_bytes;
  const double seconds = std::chrono::duration<double>(drawn_ - begin_).count();
  const auto rate = static_cast<std::uint64_t>(static_cast<double>(done) / std::max(seconds, 1e-3));
  std::string line =
      fmt::format("{}  {}/s", drawn_bar(share_of(done, total_bytes_)), human_bytes(rate));
  if (compressed_bytes > 0) {
    line += fmt::format("  ratio {:.2f}",
                        static_cast<double>(done_bytes) / static_cast<double>(compressed_bytes));
  }
  put_line(line + "  " + label_);
}

void ProgressBar::put_line(std::string line) {
  // A line that wraps could not be erased. It is never cut inside a character.
  std::size_t end = std::min(line.size(), terminal_columns() - 1);
  while (end > 0 && end < line.size() && (line[end] & 0xC0) == 0x80) --end;
  line.resize(end);
  erase();
  put(line);
  visible_ = true;
}

void ProgressBar::erase() {
  if (!visible_) return;
  put("\r" + std::string(terminal_columns() - 1, ' ') + "\r");
  visible_ = false;
}

}  // namespace cfck::tools
