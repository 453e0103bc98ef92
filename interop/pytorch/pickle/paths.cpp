#include "interop/pytorch/pickle/paths.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.hpp"

namespace cfck::interop {
namespace {

// spec/checkpoint.md, section 4.
constexpr std::uint64_t kLongestName = 1000;
constexpr std::uint64_t kKept = kLongestName / 2;
constexpr std::size_t kMaxShownBytes = 400;

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// Returns where character `n_characters` of the text begins, or its size.
std::size_t behind(std::string_view text, std::uint64_t n_characters) {
  std::size_t at = 0;
  while (at < text.size() && (n_characters > 0 || !begins_character(text[at]))) {
    if (begins_character(text[at])) --n_characters;
    ++at;
  }
  return at;
}

// Returns where the last `n_characters` of the text begin.
std::size_t before_last(std::string_view text, std::uint64_t n_characters) {
  std::size_t at = text.size();
  while (at > 0 && n_characters > 0) {
    if (begins_character(text[--at])) --n_characters;
  }
  return at;
}

}  // namespace

void PicklePath::set_last(std::string text, bool is_named) {
  const auto n_characters =
      static_cast<std::uint64_t>(std::count_if(text.begin(), text.end(), begins_character));
  steps_.back() = {std::move(text), n_characters, is_named};
}

std::string PicklePath::name() const {
  std::vector<const Step*> named;
  std::uint64_t n_characters = 0;
  for (const Step& step : steps_) {
    if (!step.is_named) continue;
    n_characters += step.n_characters + (named.empty() ? 0 : 1);
    named.push_back(&step);
  }
  const bool is_long = n_characters > kLongestName;
  const std::uint64_t n_head = is_long ? kKept : n_characters;
  std::string head;
  std::uint64_t n_done = 0;
  for (std::size_t i = 0; i < named.size() && n_done < n_head; ++i) {
    if (i > 0) {
      head += '.';
      ++n_done;
    }
    const std::uint64_t n_taken = std::min(n_head - n_done, named[i]->n_characters);
    head += std::string_view(named[i]->text).substr(0, behind(named[i]->text, n_taken));
    n_done += n_taken;
  }
  if (!is_long) return head;
  std::vector<std::string_view> tail;  // the last part first
  n_done = 0;
  for (std::size_t i = named.size(); i-- > 0 && n_done < kKept;) {
    const std::string_view text = named[i]->text;
    const std::uint64_t n_taken = std::min(kKept - n_done, named[i]->n_characters);
    tail.push_back(text.substr(before_last(text, n_taken)));
    n_done += n_taken;
    if (i > 0 && n_done < kKept) {
      tail.push_back(".");
      ++n_done;
    }
  }
  head += "...";
  for (std::size_t i = tail.size(); i-- > 0;) head += tail[i];
  return head;
}

std::string PicklePath::shown() const {
  std::string path = "checkpoint";
  for (const Step& step : steps_) {
    if (path.size() > kMaxShownBytes) break;
    if (step.is_named) path += "['" + escaped(step.text.substr(0, kMaxShownBytes)) + "']";
  }
  return path.size() > kMaxShownBytes ? path.substr(0, kMaxShownBytes) + "..." : path;
}

}  // namespace cfck::interop
