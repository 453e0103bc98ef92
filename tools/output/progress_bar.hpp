// One line on the terminal that shows the progress of the work.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace cfck::tools {

class ProgressBar {
 public:
  // Shows nothing if not `enabled`.
  ProgressBar(bool enabled, std::uint64_t total_bytes);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Names the work that the next bytes belong to: "model.safetensors", "checking ...".
  void start(std::string label);
  // Sets bytes of tensors done and bytes of the compressed file so far, both since start(); 0 for
  // the latter where there is none.
  void update(std::uint64_t done_bytes, std::uint64_t compressed_bytes);
  // Shows separate work that has to be done first: "finding steps, trial 3".
  void preparing(std::string_view what, std::uint64_t done_bytes, std::uint64_t total_bytes);

 private:
  // True if it is time to draw again.
  bool is_due();
  void draw(std::uint64_t done_bytes, std::uint64_t compressed_bytes);
  void put_line(std::string line);
  void erase();

  const bool enabled_;
  const std::uint64_t total_bytes_;
  const std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point drawn_;
  std::string label_;
  std::uint64_t before_bytes_ = 0;  // done by parts that are finished
  std::uint64_t part_bytes_ = 0;
  bool visible_ = false;
};

}  // namespace cfck::tools
