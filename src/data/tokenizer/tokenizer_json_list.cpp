#include "data/tokenizer/tokenizer_json_list.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

/// Walks over the tokens of a text that is known to be JSON.
class Walk {
 public:
  Walk(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  size_t at() const { return at_; }
  void skip_space() { at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size()); }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void demand(char c) {
    VIADUCT_CHECK(IoError, take(c), "{}: expected {} at byte {}", where_, c, at_);
  }
  /// A string as it is spelled, between its quotation marks.
  std::string_view string() {
    demand('"');
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    VIADUCT_CHECK(IoError, at_ < text_.size(), "{}: a string without an end", where_);
    return text_.substr(begin, at_++ - begin);
  }
  /// Over one value; where its last byte is.
  size_t value() {
    skip_space();
    int depth = 0;
    do {
      VIADUCT_CHECK(IoError, at_ < text_.size(), "{}: a value without an end", where_);
      const char c = text_[at_];
      if (c == '"') {
        string();
      } else if (c == '[' || c == '{') {
        ++depth;
        ++at_;
      } else if (c == ']' || c == '}') {
        --depth;
        ++at_;
      } else if (depth > 0) {
        ++at_;
      } else {
        at_ = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size());
      }
    } while (depth > 0);
    return at_ - 1;
  }

 private:
  std::string_view text_, where_;
  size_t at_ = 0;
};

/// A member of an object in a text.
struct Member {
  size_t begin = 0, last = 0;  // the first and the last byte of its value; both 0: there is none
  size_t inside = 0;           // after the brace that opens the object
  bool others = false;
};

Member find(std::string_view text, std::string_view name, std::string_view where) {
  Walk walk(text, where);
  Member found;
  walk.demand('{');
  found.inside = walk.at();
  for (walk.skip_space(); !walk.take('}'); walk.take(',')) {
    const std::string_view key = walk.string();
    walk.demand(':');
    walk.skip_space();
    const size_t begin = walk.at(), last = walk.value();
    if (key == name) {
      found.begin = begin;
      found.last = last;
      return found;
    }
    found.others = true;
  }
  return found;
}

std::string joined(const std::vector<std::string>& entries, bool first) {
  std::string text;
  for (const std::string& entry : entries) {
    if (!first) text += ",";
    first = false;
    text += "\n    " + entry;
  }
  return text;
}

}  // namespace

std::string_view list_text(std::string_view text, std::string_view name, std::string_view where) {
  const Member list = find(text, name, where);
  if (list.begin == 0 || text[list.begin] != '[') return {};
  return text.substr(list.begin, list.last + 1 - list.begin);
}

std::string with_list(std::string_view text, std::string_view name, std::string_view list,
                      std::string_view where) {
  const Member old = find(text, name, where);
  if (old.begin > 0)
    return fmt::format("{}{}{}", text.substr(0, old.begin), list, text.substr(old.last + 1));
  return fmt::format("{}\n  \"{}\": {}{}{}", text.substr(0, old.inside), name, list,
                     old.others ? "," : "", text.substr(old.inside));
}

std::string with_longer_list(std::string_view text, std::string_view name,
                             const std::vector<std::string>& entries, std::string_view where) {
  const Member old = find(text, name, where);
  if (old.begin == 0) return with_list(text, name, "[" + joined(entries, true) + "\n  ]", where);
  VIADUCT_CHECK(IoError, text[old.begin] == '[', "{}: {} must be a list", where, name);
  const size_t last = text.find_last_not_of(kSpace, old.last - 1);
  return std::string(text.substr(0, last + 1)) + joined(entries, last == old.begin) + "\n  " +
         std::string(text.substr(old.last));
}

}  // namespace viaduct
