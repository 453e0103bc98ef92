// A list of a few elements, which needs no memory but its own.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include "base/names/detail.hpp"

namespace cfck::detail {

// Holds at most kCapacity elements. Those that are not in use are T().
template <class T, std::size_t kCapacity>
class ShortList {
 public:
  ShortList() = default;
  ShortList(std::initializer_list<T> elements) {
    for (const T& element : elements) {
      push_back(element);
    }
  }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* begin() noexcept { return elements_.data(); }
  T* end() noexcept { return begin() + size_; }
  const T* begin() const noexcept { return elements_.data(); }
  const T* end() const noexcept { return begin() + size_; }
  // Requires: there is one.
  const T& front() const noexcept { return elements_[0]; }
  const T& operator[](std::size_t i) const noexcept { return elements_[i]; }

  // Requires: there is space for it.
  void push_back(T element) {
    assert(size_ < kCapacity);
    elements_[size_++] = std::move(element);
  }
  // Puts `others` before what is there. Requires: there is space for them.
  void prepend(const ShortList& others) {
    for (const T& element : others) {
      push_back(element);
    }
    std::rotate(begin(), end() - others.size(), end());
  }
  template <class Matches>
  void erase_if(Matches matches) {
    T* const kept = std::remove_if(begin(), end(), matches);
    std::fill(kept, end(), T());
    size_ = static_cast<std::size_t>(kept - begin());
  }

 private:
  std::array<T, kCapacity> elements_{};
  std::size_t size_ = 0;
};

}  // namespace cfck::detail
