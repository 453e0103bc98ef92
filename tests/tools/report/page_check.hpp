// Reads pages as a browser would, but strictly.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cfck::test {

struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;  // unescaped
  std::string text;                               // directly in it, unescaped
};

struct CheckedPage {
  std::vector<Element> elements;
  // Each entry names a mistake: tags that do not match, attributes without quotes, anything that
  // would load or run something, links that lead out of the page or nowhere, identifiers that occur
  // twice.
  std::vector<std::string> problems;

  std::size_t count(std::string_view name) const;
  bool has_text(std::string_view text) const;  // the whole text of an element
};

CheckedPage check_page(std::string_view html);

}  // namespace cfck::test
