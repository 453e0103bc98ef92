#include "base/glob.hpp"

#include <fnmatch.h>
#include <gtest/gtest.h>

#include <string>

namespace cfck {
namespace {

TEST(Glob, Examples) {
  EXPECT_TRUE(matches_glob("*.weight", "layer.0.weight"));
  EXPECT_TRUE(matches_glob("*", ""));
  EXPECT_TRUE(matches_glob("", ""));
  EXPECT_FALSE(matches_glob("", "a"));
  EXPECT_FALSE(matches_glob("a", ""));
  EXPECT_TRUE(matches_glob("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(matches_glob("a*b*c", "aXbYbZ"));
  EXPECT_TRUE(matches_glob("layer.[0-3].*", "layer.2.bias"));
  EXPECT_FALSE(matches_glob("layer.[!0-3].*", "layer.2.bias"));
  EXPECT_TRUE(matches_glob("[]]", "]"));
  EXPECT_TRUE(matches_glob("[!]]", "a"));
  EXPECT_TRUE(matches_glob("a[b", "a[b"));
  EXPECT_TRUE(matches_glob("d[0]", "d[0]"));
  EXPECT_TRUE(matches_glob("d[0]", "d0"));
  EXPECT_TRUE(matches_glob("a\\*", "a\\b"));
}

TEST(Glob, CharactersNotBytes) {
  EXPECT_TRUE(matches_glob("?.w", "\u00e4.w"));
  EXPECT_FALSE(matches_glob("??.w", "\u00e4.w"));
  EXPECT_TRUE(matches_glob("[\u00e0-\u00ff].w", "\u00e4.w"));
  EXPECT_FALSE(matches_glob("[a-z].w", "\u00e4.w"));
  EXPECT_TRUE(matches_glob("?", "\U0001f600"));
  EXPECT_TRUE(matches_glob("?", "\xff"));
  EXPECT_TRUE(matches_glob("??", "\xe4\x62"));
  const std::string zero("a\0b", 3);
  EXPECT_TRUE(matches_glob("a?b", zero));
  EXPECT_FALSE(matches_glob("a", zero));
}

TEST(Glob, ManyStarsTakeNoTime) {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) pattern += "a*";
  EXPECT_FALSE(matches_glob(pattern + "b", std::string(65535, 'a')));
}

// In plain ASCII the C library agrees, whose locale is C in tests.
TEST(Glob, AsTheCLibraryHasIt) {
  const std::string alphabet = "ab*?[]!-";
  std::uint64_t state = 1;
  const auto text = [&](std::size_t most, std::size_t letters) {
    std::string made;
    for (std::uint64_t n = (state = state * 6364136223846793005U + 1442695040888963407U) >> 40;
         n % (most + 1) != made.size();) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      made += alphabet[(state >> 33) % letters];
    }
    return made;
  };
  int n_matches = 0;
  for (int i = 0; i < 300000; ++i) {
    const std::string pattern = text(7, alphabet.size());
    const std::string name = text(5, i % 2 == 0 ? 2 : alphabet.size());
    // Patterns that POSIX leaves undefined: ranges without an end, or backwards.
    if (pattern.find('-') != std::string::npos || pattern.find("[!") != std::string::npos) continue;
    const bool expected =
        pattern == name || ::fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
    ASSERT_EQ(matches_glob(pattern, name), expected) << pattern << " " << name;
    n_matches += expected ? 1 : 0;
  }
  EXPECT_GT(n_matches, 5000);
}

}  // namespace
}  // namespace cfck
