#include "base/short_list.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace cfck::detail {
namespace {

using Numbers = ShortList<int, 6>;

std::vector<int> elements(const Numbers& list) { return {list.begin(), list.end()}; }

TEST(ShortList, KeepsTheOrder) {
  Numbers list = {3, 4};
  list.push_back(5);
  list.prepend({1, 2});
  EXPECT_EQ(elements(list), (std::vector<int>{1, 2, 3, 4, 5}));
  list.erase_if([](int number) { return number % 2 == 1; });
  EXPECT_EQ(elements(list), (std::vector<int>{2, 4}));
  list.prepend({});
  EXPECT_EQ(list.front(), 2);
  EXPECT_EQ(list[1], 4);
}

TEST(ShortList, LetsGoOfWhatItErases) {
  const auto shared = std::make_shared<int>(1);
  ShortList<std::shared_ptr<int>, 3> list = {shared, nullptr, shared};
  EXPECT_EQ(shared.use_count(), 3);
  list.erase_if([](const std::shared_ptr<int>& pointer) { return pointer != nullptr; });
  EXPECT_EQ(list.size(), 1U);
  EXPECT_FALSE(list.empty());
  EXPECT_EQ(shared.use_count(), 1);
}

}  // namespace
}  // namespace cfck::detail
