#include "support/source_text.h"

#include <algorithm>
#include <cctype>

namespace viaduct::test {
namespace {

bool is_identifier(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// The end of the literal that starts at `begin` (its opening quote), or the end of the text.
size_t literal_end(std::string_view code, size_t begin) {
  const char quote = code[begin];
  size_t at = begin + 1;
  while (at < code.size() && code[at] != quote) at += code[at] == '\\' ? 2 : 1;
  return std::min(at, code.size());
}

// The end of a raw string literal whose opening quote is at `begin`: the position of its closing
// quote.
size_t raw_literal_end(std::string_view code, size_t begin) {
  const size_t open = code.find('(', begin);
  if (open == std::string_view::npos) return code.size();
  const std::string close = ")" + std::string(code.substr(begin + 1, open - begin - 1)) + "\"";
  const size_t end = code.find(close, open);
  return end == std::string_view::npos ? code.size() : end + close.size() - 1;
}

}  // namespace

std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                               const std::vector<std::string>& endings) {
  std::vector<std::filesystem::path> files;
  const auto start = source_folder() / folder;
  if (!std::filesystem::exists(start)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(start)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().filename().string();
    const bool wanted = std::any_of(endings.begin(), endings.end(),
                                    [&](const auto& ending) { return name.ends_with(ending); });
    if (wanted || endings.empty()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string shown(const std::filesystem::path& path) {
  return path.lexically_relative(source_folder()).string();
}

std::string without_comments_and_literals(std::string_view code) {
  std::string result(code);
  const auto blank = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (result[i] != '\n') result[i] = ' ';
    }
  };
  for (size_t i = 0; i < code.size(); ++i) {
    if (code.substr(i, 2) == "//") {
      const size_t end = std::min(code.find('\n', i), code.size());
      blank(i, end);
      i = end;
    } else if (code.substr(i, 2) == "/*") {
      const size_t close = code.find("*/", i + 2);
      const size_t end = close == std::string_view::npos ? code.size() : close + 2;
      blank(i, end);
      i = end - 1;
    } else if (code[i] == '"' && i > 0 && code[i - 1] == 'R') {
      const size_t end = raw_literal_end(code, i);
      blank(i + 1, end);
      i = end;
    } else if (code[i] == '"' ||
               (code[i] == '\'' && (i == 0 || !is_identifier(code[i - 1])))) {  // not 1'000
      const size_t end = literal_end(code, i);
      blank(i + 1, end);
      i = end;
    }
  }
  return result;
}

std::vector<std::string> included_names(std::string_view code) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin < code.size();) {
    const size_t end = std::min(code.find('\n', begin), code.size());
    std::string_view line = code.substr(begin, end - begin);
    begin = end + 1;
    const auto skip = [&](std::string_view characters) {
      line.remove_prefix(std::min(line.find_first_not_of(characters), line.size()));
    };
    skip(" \t");
    if (!line.starts_with('#')) continue;
    line.remove_prefix(1);
    skip(" \t");
    if (!line.starts_with("include")) continue;
    line.remove_prefix(std::string_view("include").size());
    skip(" \t");
    if (line.empty() || (line[0] != '"' && line[0] != '<')) continue;
    const size_t close = line.find(line[0] == '<' ? '>' : '"', 1);
    if (close != std::string_view::npos) names.emplace_back(line.substr(0, close + 1));
  }
  return names;
}

bool contains_word(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if (at == 0 || !is_identifier(text[at - 1])) return true;
  }
  return false;
}

}  // namespace viaduct::test
