// Names of the records of a checkpoint (spec/checkpoint.md, section 4).
#include <array>
#include <cctype>
#include <charconv>

#include "base/text.hpp"
#include "cfck/checkpoint.hpp"
#include "model/checkpoint/keys.hpp"

namespace cfck {
namespace {

// A longer name has its first and its last kLongestName / 2 characters.
constexpr std::size_t kLongestName = 1000;
// The name of a tensor that is no item of a container.
const std::string kRoot = "root";

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

std::string shortened(std::string name) {
  std::vector<std::size_t> characters;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (begins_character(name[i])) characters.push_back(i);
  }
  if (characters.size() <= kLongestName) return name;
  return name.substr(0, characters[kLongestName / 2]) + "..." +
         name.substr(characters[characters.size() - kLongestName / 2]);
}

std::string big_integer_step(const BigInteger& integer) {
  const bool negative = integer.digits.starts_with('-');
  const std::string_view digits = std::string_view(integer.digits).substr(negative ? 3 : 2);
  std::uint64_t magnitude = 0;
  if (digits.size() > 16) return integer.digits;
  std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, 16);
  return (negative ? "-" : "") + std::to_string(magnitude);
}

std::string float_step(double value) {
  if (value != value) return "nan";
  if (value - value != 0) return value < 0 ? "-inf" : "inf";
  return model::python_float(value);
}

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }
bool is_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }

bool begins_with_word(std::string_view text, std::string_view word) {
  if (text.size() < word.size()) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (lower(text[i]) != word[i]) return false;
  }
  return text.size() == word.size() || !is_letter(text[word.size()]);
}

}  // namespace

std::string CheckpointNames::name(std::span<const std::string> steps) {
  std::string path;
  for (std::size_t i = 0; i < steps.size(); ++i) path += (i > 0 ? "." : "") + steps[i];
  return name(shortened(std::move(path)));
}

std::string CheckpointNames::name(const std::string& given) {
  const std::string& path = given.empty() ? kRoot : given;
  std::size_t& suffix = suffixes_.try_emplace(path, 1).first->second;
  std::string name = path;
  while (!used_.insert(name).second) name = path + "~" + std::to_string(++suffix);
  return name;
}

std::string checkpoint_step(const CheckpointValue& key) {
  if (std::holds_alternative<std::monostate>(key.value)) return "None";
  if (const auto* flag = std::get_if<bool>(&key.value)) return *flag ? "True" : "False";
  if (const auto* integer = std::get_if<std::int64_t>(&key.value)) return std::to_string(*integer);
  if (const auto* integer = std::get_if<BigInteger>(&key.value)) return big_integer_step(*integer);
  if (const auto* number = std::get_if<double>(&key.value)) return float_step(*number);
  if (const auto* text = std::get_if<std::string>(&key.value)) return *text;
  if (const auto* dtype = std::get_if<TorchDType>(&key.value)) return "torch." + dtype->name;
  if (const auto* device = std::get_if<TorchDevice>(&key.value)) return device->name;
  if (const auto* bytes = std::get_if<CheckpointBytes>(&key.value)) {
    return "b'" + escaped(bytes->bytes) + "'";
  }
  if (const auto* number = std::get_if<std::complex<double>>(&key.value)) {
    return "(" + float_step(number->real()) + "," + float_step(number->imag()) + ")";
  }
  std::string step = "(";
  if (const auto* size = std::get_if<TorchSize>(&key.value)) {
    for (const std::int64_t item : size->sizes) {
      step += (step.size() > 1 ? "," : "") + std::to_string(item);
    }
    return step + ")";
  }
  const auto* const tuple = std::get_if<TupleKey>(&key.value);
  for (std::size_t i = 0; tuple != nullptr && i < tuple->items.size(); ++i) {
    step += (i > 0 ? "," : "") + checkpoint_step(tuple->items[i]);
  }
  return step + ")";
}

bool is_optimizer_key(std::string_view key) {
  constexpr std::array<std::string_view, 4> kWords = {"optim", "optims", "optimizer", "optimizers"};
  for (std::size_t at = 0; at < key.size(); ++at) {
    if (at > 0 && is_letter(key[at - 1])) continue;
    for (const std::string_view word : kWords) {
      if (begins_with_word(key.substr(at), word)) return true;
    }
  }
  return false;
}

}  // namespace cfck
