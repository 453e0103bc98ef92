#include "base/text.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/messages.hpp"
#include "cfck/status.hpp"

namespace cfck {
namespace {

using namespace std::string_view_literals;

TEST(Text, AcceptsUtf8) {
  for (const std::string_view text :
       {""sv, "weight"sv, "\xC2\x80"sv, "\xDF\xBF"sv, "\xE0\xA0\x80"sv, "\xED\x9F\xBF"sv,
        "\xEE\x80\x80"sv, "\xF0\x90\x80\x80"sv, "\xF4\x8F\xBF\xBF"sv, "a\0b"sv}) {
    EXPECT_TRUE(valid_utf8(text)) << escaped(text);
  }
}

TEST(Text, AlternativesEndWithOr) {
  constexpr std::string_view kWords[] = {"raw", "lossless", "direct"};
  const std::span<const std::string_view> words = kWords;
  EXPECT_EQ(alternatives(words), "raw, lossless or direct");
  EXPECT_EQ(alternatives(words.first(2)), "raw or lossless");
  EXPECT_EQ(alternatives(words.first(1)), "raw");
  EXPECT_EQ(alternatives({}), "");
}

TEST(Text, RefusesWhatIsNotUtf8) {
  for (const std::string_view text :
       {"\x80"sv, "\xC0\xAF"sv, "\xC1\xBF"sv, "\xC2"sv, "\xC2\x41"sv, "\xE0\x9F\xBF"sv,
        "\xE2\x82"sv, "\xED\xA0\x80"sv, "\xF0\x8F\xBF\xBF"sv, "\xF4\x90\x80\x80"sv,
        "\xF5\x80\x80\x80"sv, "\xFF"sv, "ok\xFE"sv}) {
    EXPECT_FALSE(valid_utf8(text)) << escaped(text);
  }
}

TEST(Text, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(escaped("plain \xC3\xBC"), "plain \xC3\xBC");
  EXPECT_EQ(escaped("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(escaped("\x1b[31m\x7f"), "\\x1b[31m\\x7f");
  EXPECT_EQ(escaped("\xC2\x9B"), "\\u009b");
  EXPECT_EQ(escaped("\xE2\x80\xAE"), "\\u202e");
  EXPECT_EQ(escaped("a\\b"), "a\\\\b");
  EXPECT_EQ(escaped("\xFFz"), "\\xffz");
  EXPECT_EQ(escaped("a\0b"sv), "a\\x00b");
}

TEST(Text, EscapesWhatCannotBeSeen) {
  EXPECT_EQ(escaped("a\u200bb"), "a\\u200bb");  // zero width space
  EXPECT_EQ(escaped("\u00ad\u034f\u2060\ufeff"), "\\u00ad\\u034f\\u2060\\ufeff");
  EXPECT_EQ(escaped("\u061c\u2066\u202e"), "\\u061c\\u2066\\u202e");     // direction
  EXPECT_EQ(escaped("\ufe0f\U000e0100"), "\\ufe0f\\U000e0100");          // variation selectors
  EXPECT_EQ(escaped("\U000e0041\U000e007f"), "\\U000e0041\\U000e007f");  // tags
  EXPECT_EQ(escaped("\ue000\U0010fffd"), "\\ue000\\U0010fffd");          // private use
  EXPECT_EQ(escaped("\u00a0\u3000 x"), "\\u00a0\\u3000 x");              // spaces
  EXPECT_EQ(escaped("\u3164\u115f\uffa0"), "\\u3164\\u115f\\uffa0");     // empty letters
  const std::string_view seen = "\u00e9\u0301\u4e2d\u0939\u093f\U0001f600\u200a"sv;
  EXPECT_EQ(escaped(seen.substr(0, seen.size() - 3)), seen.substr(0, seen.size() - 3));
}

TEST(Error, SaysWhere) {
  EXPECT_EQ((Error{ErrorCode::kCorrupt, "bad", {}, {}}.to_string()), "bad");
  EXPECT_EQ((Error{ErrorCode::kCorrupt, "bad", "w", {}}.to_string()), "bad (record 'w')");
  EXPECT_EQ((Error{ErrorCode::kCorrupt, "bad", {}, 7}.to_string()), "bad (byte 7)");
  EXPECT_EQ((Error{ErrorCode::kCorrupt, "bad", "w\n\xFF", 7}.to_string()),
            "bad (record 'w\\n\\xff', byte 7)");
}

TEST(Error, CodesHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (int code = 1; code <= 10; ++code) {
    names.insert(error_code_name(static_cast<ErrorCode>(code)));
  }
  EXPECT_EQ(names.size(), 10U);
  EXPECT_EQ(names.count("unknown"), 0U);
  EXPECT_STREQ(error_code_name(ErrorCode::kInvalidArgument), "invalid_argument");
}

Result<int> half(int value) {
  if (value % 2 != 0) {
    return Error{ErrorCode::kInvalidArgument, "odd", {}, {}};
  }
  return value / 2;
}

Result<int> quarter(int value) {
  CFCK_TRY_ASSIGN(const int once, half(value));
  CFCK_TRY(half(once));
  return half(once);
}

#define CFCK_TEST_HALVES(once, twice, value)    \
  CFCK_TRY_ASSIGN(const int once, half(value)); \
  CFCK_TRY_ASSIGN(const int twice, half(once))

Result<int> eighth(int value) {
  CFCK_TEST_HALVES(once, twice, value);
  return half(twice);
}

TEST(Result, TwoMayBeTriedOnOneLine) {
  EXPECT_EQ(eighth(24).value(), 3);
  EXPECT_FALSE(eighth(4 * 3 * 2 + 2));
  EXPECT_FALSE(eighth(4));
  EXPECT_FALSE(eighth(1));
}

TEST(Result, ValueThrowsTheError) {
  try {
    (void)half(3).value();
    FAIL() << "there is no value";
  } catch (const BadResult& bad) {
    EXPECT_STREQ(bad.what(), "odd");
    EXPECT_EQ(bad.error().code, ErrorCode::kInvalidArgument);
  }
  const Result<void> failed = Error{ErrorCode::kIo, "no", "w", 5};
  EXPECT_THROW(failed.value(), BadResult);
  EXPECT_NO_THROW(Result<void>().value());
}

TEST(Result, PassesErrorsOn) {
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_EQ(quarter(5).error().message, "odd");
}

TEST(Messages, ControlCharactersDoNotReachTerminals) {
  EXPECT_EQ(without_controls("two\nlines\tof 'na\u00efve' text"),
            "two\nlines\tof 'na\u00efve' text");
  EXPECT_EQ(without_controls("\x1b[2J\x07\r\x7f"), "\\x1b[2J\\x07\\r\\x7f");
  EXPECT_EQ(without_controls("\xc2\x9b"
                             "1m"),
            "\\u009b1m");
  EXPECT_EQ(corrupt("a \x1b]0;title\x07 member").to_string(), "a \\x1b]0;title\\x07 member");
}

}  // namespace
}  // namespace cfck
