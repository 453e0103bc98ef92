// One line on the terminal that shows the progress of the work.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace cfck::tools {

class ProgressBar {
 public:
  // Shows nothing if not `enabled`.
  ProgressBar(bool enabled, std::uint64_t total_bytes);
  // A part of the work that `whole` shows. Parts may belong to different threads. What a part has
  // not done when it ends, because it failed, counts as done. `whole` must outlive it.
  ProgressBar(ProgressBar& whole, std::uint64_t total_bytes);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Names the work that the next bytes belong to: "model.safetensors", "checking ...".
  void start(std::string label);
  // Sets bytes of tensors done and bytes of the compressed file so far, both since start(); 0 for
  // the latter where there is none.
  void update(std::uint64_t done_bytes, std::uint64_t compressed_bytes);
  // Adds to the bytes done since start(), by any number of threads.
  void advance(std::uint64_t n_bytes);
  // Shows separate work that has to be done first: "finding steps, trial 3".
  void preparing(std::string_view what, std::uint64_t done_bytes, std::uint64_t total_bytes);
  // Calls `print`, which writes to the terminal, while no bar is on it.
  void without_bar(const std::function<void()>& print);

 private:
  using Clock = std::chrono::steady_clock;

  // True if it is time to draw again.
  bool is_due();
  void draw(std::uint64_t done_bytes, std::uint64_t compressed_bytes);
  void put_line(std::string line);
  void erase();
  // Parts call this to tell the whole how far they are.
  void add_of_part(std::uint64_t n_bytes, const std::string& label);

  ProgressBar* const whole_ = nullptr;
  const bool enabled_;
  const std::uint64_t total_bytes_;
  const Clock::time_point created_;
  Clock::time_point begin_;  // of the bytes that are counted, after preparations
  Clock::time_point drawn_;
  std::string label_;
  std::uint64_t before_bytes_ = 0;  // done by parts that are finished
  std::uint64_t part_bytes_ = 0;
  std::uint64_t told_bytes_ = 0;  // to the whole
  bool visible_ = false;
  std::mutex mutex_;  // of a bar with parts
};

// "0:07", "12:34", "1:02:03"
std::string clock_text(double seconds);

}  // namespace cfck::tools
