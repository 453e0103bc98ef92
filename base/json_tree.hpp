// JSON that comes from a file, as a tree: bounded before it is built, and destroyed without
// asking for memory, which the destructor of nlohmann::json does.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/names/detail.hpp"
#include "base/text.hpp"
#include "cfck/status.hpp"

namespace cfck::detail {

struct JsonBounds {
  std::size_t max_values = 0;  // of the whole text, objects and arrays included
  std::size_t max_depth = 32;
};

template <class Json>
class JsonTree {
 public:
  // Errors: kCorrupt, with the reason, for text that is not JSON in UTF-8, nests too deep, or has
  // a key twice in one object; kLimitExceeded for more values than `bounds` allows.
  static Result<JsonTree> parse(std::string_view text, const JsonBounds& bounds) {
    JsonTree tree;
    Builder builder(tree.root_, bounds);
    if (!Json::sax_parse(text, &builder)) {
      return builder.take_problem();
    }
    return tree;
  }

  JsonTree(JsonTree&& other) noexcept { root_.swap(other.root_); }
  JsonTree& operator=(JsonTree&& other) noexcept {
    root_.swap(other.root_);
    return *this;
  }
  ~JsonTree() { dismantle(root_); }

  Json& root() noexcept { return root_; }
  const Json& root() const noexcept { return root_; }

 private:
  class Builder;

  JsonTree() = default;

  // Dismantles the leaves first, so that no destructor meets more than one level. The depth is
  // bounded, and so is the recursion.
  static void dismantle(Json& value) noexcept {
    if (auto* const array = value.template get_ptr<typename Json::array_t*>()) {
      for (Json& element : *array) {
        dismantle(element);
      }
      array->clear();
    } else if (auto* const object = value.template get_ptr<typename Json::object_t*>()) {
      for (auto& member : *object) {
        dismantle(member.second);
      }
      object->clear();
    }
  }

  Json root_;
};

template <class Json>
class JsonTree<Json>::Builder final : public nlohmann::json_sax<Json> {
 public:
  using typename nlohmann::json_sax<Json>::number_integer_t;
  using typename nlohmann::json_sax<Json>::number_unsigned_t;
  using typename nlohmann::json_sax<Json>::number_float_t;
  using typename nlohmann::json_sax<Json>::string_t;
  using typename nlohmann::json_sax<Json>::binary_t;

  Builder(Json& root, const JsonBounds& bounds) : root_(root), bounds_(bounds) {}

  Error take_problem() { return std::move(problem_); }

  bool null() override { return add(nullptr) != nullptr; }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override {
    return add(value) != nullptr;
  }
  bool string(string_t& text) override { return add(std::move(text)) != nullptr; }
  bool binary(binary_t&) override { return fail(ErrorCode::kCorrupt, "is not valid JSON"); }
  bool start_object(std::size_t) override { return open(Json::value_t::object); }
  bool start_array(std::size_t) override { return open(Json::value_t::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& text) override {
    if (!open_.back().keys.insert(text).second) {
      return fail(ErrorCode::kCorrupt, "has the key '" + escaped(text) + "' twice");
    }
    key_ = std::move(text);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return fail(ErrorCode::kCorrupt, "is not valid JSON in UTF-8");
  }

 private:
  bool fail(ErrorCode code, std::string reason) {
    problem_ = {code, std::move(reason), {}, {}};
    return false;
  }

  // Adds the value at its place in the tree; returns nullptr for one too many.
  template <class Value>
  Json* add(Value&& value) {
    if (++n_values_ > bounds_.max_values) {
      fail(ErrorCode::kLimitExceeded,
           "has more than the " + std::to_string(bounds_.max_values) + " values that are allowed");
      return nullptr;
    }
    if (open_.empty()) {
      root_ = std::forward<Value>(value);
      return &root_;
    }
    Json& parent = *open_.back().value;
    if (auto* const array = parent.template get_ptr<typename Json::array_t*>()) {
      array->push_back(Json(std::forward<Value>(value)));
      return &array->back();
    }
    auto& object = *parent.template get_ptr<typename Json::object_t*>();
    if constexpr (requires { object.back(); }) {
      // A container that keeps its order would compare each key with all before.
      make_room(object);
      object.emplace_back(std::move(key_), Json(std::forward<Value>(value)));
      return &object.back().second;
    } else {
      return &object.emplace(std::move(key_), Json(std::forward<Value>(value))).first->second;
    }
  }

  // Left to itself, the container would copy all members to more room, and destroy the copies where
  // memory ends before the last.
  static void make_room(typename Json::object_t& object) requires requires { object.capacity(); }
  {
    if (object.size() < object.capacity()) return;
    typename Json::object_t larger;
    larger.reserve(object.size() * 2 + 1);
    for (const auto& member : object) larger.emplace_back(member.first, Json());
    auto to = larger.begin();
    for (auto& member : object) (to++)->second.swap(member.second);
    object.swap(larger);
  }

  bool open(typename Json::value_t kind) {
    if (open_.size() == bounds_.max_depth) {
      return fail(ErrorCode::kCorrupt, "nests too deep");
    }
    Json* const opened = add(Json(kind));
    if (opened == nullptr) {
      return false;
    }
    open_.push_back({opened, {}});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  struct Open {
    Json* value = nullptr;
    std::set<std::string> keys;  // of an object
  };

  Json& root_;
  const JsonBounds bounds_;
  std::vector<Open> open_;  // objects and arrays from the root to where the text is
  std::string key_;
  std::size_t n_values_ = 0;
  Error problem_;
};

}  // namespace cfck::detail
