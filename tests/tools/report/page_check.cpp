#include "tests/tools/report/page_check.hpp"

#include <algorithm>
#include <set>

namespace cfck::test {
namespace {

const std::set<std::string> kVoid = {"meta", "wbr"};
const std::set<std::string> kAllowed = {
    "html", "head", "meta",   "title",   "style",   "body",    "main", "h1",   "h2",    "h3", "p",
    "div",  "span", "b",      "i",       "bdi",     "section", "ul",   "li",   "table", "tr", "th",
    "td",   "a",    "footer", "details", "summary", "svg",     "text", "rect", "path",  "wbr"};

std::string unescaped(std::string_view text) {
  static const std::vector<std::pair<std::string_view, char>> kEntities = {
      {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#39;", '\''}};
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const auto found = std::find_if(kEntities.begin(), kEntities.end(), [&](const auto& entity) {
      return text.substr(i).starts_with(entity.first);
    });
    if (found == kEntities.end()) {
      result += text[i++];
    } else {
      result += found->second;
      i += found->first.size();
    }
  }
  return result;
}

class Parser {
 public:
  explicit Parser(std::string_view html) : html_(html) {}

  CheckedPage parse() {
    while (at_ < html_.size()) {
      const std::size_t open = std::min(html_.find('<', at_), html_.size());
      add_text(html_.substr(at_, open - at_));
      at_ = open;
      if (at_ < html_.size()) tag();
    }
    if (!open_.empty()) complain("not closed: " + page_.elements[open_.back()].name);
    check_links();
    return std::move(page_);
  }

 private:
  void complain(const std::string& what) { page_.problems.push_back(what); }

  void add_text(std::string_view text) {
    if (open_.empty()) return;
    if (text.find('>') != std::string_view::npos) complain("a stray > in a text");
    page_.elements[open_.back()].text += unescaped(text);
  }

  void tag() {
    const std::size_t end = html_.find('>', at_);
    if (end == std::string_view::npos) {
      complain("a tag without end");
      at_ = html_.size();
      return;
    }
    std::string_view body = html_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (body.starts_with("!DOCTYPE")) return;
    if (body.starts_with('/')) {
      close(std::string(body.substr(1)));
      return;
    }
    const bool is_closed = body.ends_with('/');
    if (is_closed) body.remove_suffix(1);
    Element element;
    const std::size_t name_end = std::min(body.find(' '), body.size());
    element.name = body.substr(0, name_end);
    attributes(body.substr(name_end), element);
    if (!kAllowed.contains(element.name)) complain("element " + element.name);
    const bool stays_open = !is_closed && !kVoid.contains(element.name);
    page_.elements.push_back(std::move(element));
    if (stays_open) open_.push_back(page_.elements.size() - 1);
    if (stays_open && page_.elements.back().name == "style") style();
  }

  void style() {
    const std::size_t end = html_.find("</style>", at_);
    const std::string_view sheet = html_.substr(at_, end - at_);
    for (const char* loads : {"url(", "@import", "@font-face", "http"}) {
      if (sheet.find(loads) != std::string_view::npos) complain("the style sheet loads something");
    }
    at_ = end;
  }

  void close(const std::string& name) {
    if (open_.empty() || page_.elements[open_.back()].name != name) {
      complain("</" + name + "> closes nothing");
      return;
    }
    open_.pop_back();
  }

  void attributes(std::string_view text, Element& element) {
    while (!text.empty()) {
      text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
      if (text.empty()) return;
      const std::size_t equals = text.find("=\"");
      const std::size_t end = text.find('"', equals + 2);
      if (equals == std::string_view::npos || end == std::string_view::npos) {
        complain("attributes without quotes: " + std::string(text));
        return;
      }
      const std::string name(text.substr(0, equals));
      element.attributes[name] = unescaped(text.substr(equals + 2, end - equals - 2));
      if (name.starts_with("on") || name == "src" || name == "xlink:href") {
        complain("attribute " + name);
      }
      text.remove_prefix(end + 1);
    }
  }

  void check_links() {
    std::set<std::string> ids;
    for (const Element& element : page_.elements) {
      const auto id = element.attributes.find("id");
      if (id == element.attributes.end()) continue;
      if (!ids.insert(id->second).second) complain("twice: id " + id->second);
    }
    for (const Element& element : page_.elements) {
      const auto link = element.attributes.find("href");
      if (link == element.attributes.end()) continue;
      if (!link->second.starts_with('#') || !ids.contains(link->second.substr(1))) {
        complain("link to " + link->second);
      }
    }
  }

  std::string_view html_;
  std::size_t at_ = 0;
  std::vector<std::size_t> open_;
  CheckedPage page_;
};

}  // namespace

std::size_t CheckedPage::count(std::string_view name) const {
  return static_cast<std::size_t>(
      std::count_if(elements.begin(), elements.end(),
                    [&](const Element& element) { return element.name == name; }));
}

bool CheckedPage::has_text(std::string_view text) const {
  return std::any_of(elements.begin(), elements.end(),
                     [&](const Element& element) { return element.text == text; });
}

CheckedPage check_page(std::string_view html) { return Parser(html).parse(); }

}  // namespace cfck::test
