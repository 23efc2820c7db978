// The settings that messages and help texts name exist.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "run/run_config.h"
#include "support/source_text.h"

namespace viaduct {
namespace {

bool is_alnum(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

/// Contents of the string literals of `code`; neighbours are one text, others are on lines of their
/// own.
std::string literals(const std::string& code) {
  std::string texts;
  for (size_t i = 0; i < code.size(); ++i) {
    const char c = code[i];
    if (c == '/' && code.compare(i, 2, "//") == 0) {
      i = std::min(code.find('\n', i), code.size());
    } else if (c == '/' && code.compare(i, 2, "/*") == 0) {
      i = std::min(code.find("*/", i), code.size() - 1) + 1;
    } else if (c == '\'' && i + 2 < code.size() && (i == 0 || !is_alnum(code[i - 1]))) {
      i = code.find('\'', i + (code[i + 1] == '\\' ? 3 : 2));
    } else if (c == '"') {
      for (++i; i < code.size() && code[i] != '"'; ++i) {
        texts += code[i];
        if (code[i] == '\\' && i + 1 < code.size()) texts += code[++i];
      }
      size_t next = i + 1;
      while (next < code.size() && is_space(code[next])) ++next;
      if (next >= code.size() || code[next] != '"') texts += '\n';
    }
    if (i == code.npos) break;
  }
  return texts;
}

bool in_name(char c) {
  return is_alnum(c) || c == '_';
}

/// The names `SECTION.FIELD` in `text` whose section is one of these.
std::vector<std::string> names_in(const std::string& text,
                                  const std::vector<std::string>& sections) {
  std::vector<std::string> names;
  for (size_t dot = text.find('.'); dot != text.npos; dot = text.find('.', dot + 1)) {
    size_t begin = dot, end = dot + 1;
    while (begin > 0 && in_name(text[begin - 1])) --begin;
    while (end < text.size() && in_name(text[end])) ++end;
    const std::string section = text.substr(begin, dot - begin);
    if (end == dot + 1 || std::ranges::count(sections, section) == 0) continue;
    // A part of a path, a longer name of something else, or one that is put together.
    const auto is_one_of = [](char c, std::string_view chars) {
      return chars.find(c) != chars.npos;
    };
    const char next = end < text.size() ? text[end] : ' ';
    const char behind = end + 1 < text.size() ? text[end + 1] : ' ';
    if (begin > 0 && is_one_of(text[begin - 1], "./-")) continue;
    if (is_one_of(next, "/({*") || (next == '.' && (is_alnum(behind) || behind == '{'))) continue;
    names.push_back(text.substr(begin, end - begin));
  }
  return names;
}

TEST(MessageFields, Exist) {
  // Files, members of tokenizer.json, tensors, keys of GGUF files; and what
  // checkpoint.allow_changes has besides fields.
  const std::set<std::string> others{"tokenizer.json",
                                     "tokenizer.model",
                                     "model.safetensors",
                                     "profiling.md",
                                     "model.merges",
                                     "model.vocab",
                                     "model.unk_id",
                                     "model.dropout",
                                     "model.embed_tokens",
                                     "model.norm",
                                     "model.final_layernorm",
                                     "model.language_model",
                                     "model.vision_tower",
                                     "model.mtp_",
                                     "tokenizer.chat_template",
                                     "tokenizer.chat_templates",
                                     "dataset.content",
                                     "tokenizer.content"};
  RunConfig config;
  const Schema schema = run_schema(config);
  int named = 0;
  for (const char* folder : {"src", "apps"}) {
    for (const auto& file : test::files_below(folder, {".cpp", ".h"})) {
      for (const std::string& name : names_in(literals(read_file(file)), schema.sections())) {
        if (others.contains(name)) continue;
        ++named;
        EXPECT_NE(schema.find(name), nullptr) << test::shown(file) << " names " << name;
      }
    }
  }
  EXPECT_GT(named, 500);
}

}  // namespace
}  // namespace viaduct
