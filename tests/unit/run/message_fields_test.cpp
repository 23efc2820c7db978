// The settings that messages and help texts name exist.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>
#include <string>

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

TEST(MessageFields, Exist) {
  // Files, members of tokenizer.json, tensors, keys of GGUF files; and what checkpoint.allow_changes
  // has besides fields.
  const std::set<std::string> others{
      "tokenizer.json", "tokenizer.model", "model.safetensors", "profiling.md",
      "model.merges", "model.vocab", "model.unk_id", "model.dropout",
      "model.embed_tokens", "model.norm", "tokenizer.chat_template", "tokenizer.chat_templates",
      "dataset.content", "tokenizer.content"};
  RunConfig config;
  const Schema schema = run_schema(config);
  std::string sections;
  for (const std::string& section : schema.sections())
    sections += (sections.empty() ? "" : "|") + section;
  const std::regex name("(^|[^A-Za-z0-9_./-])((" + sections + ")\\.[A-Za-z0-9_]+)");
  int named = 0;
  for (const char* folder : {"src", "apps"}) {
    for (const auto& file : test::files_below(folder, {".cpp", ".h"})) {
      const std::string texts = literals(read_file(file));
      for (std::sregex_iterator at(texts.begin(), texts.end(), name), end; at != end; ++at) {
        const auto after = static_cast<size_t>(at->position(0) + at->length(0));
        const char next = after < texts.size() ? texts[after] : ' ';
        // A longer name of something else, or one that is put together.
        if (next == '/' || next == '(' || next == '{' || next == '*') continue;
        const bool longer = next == '.' && after + 1 < texts.size() &&
                            (is_alnum(texts[after + 1]) || texts[after + 1] == '{');
        const std::string found = (*at)[2].str();
        if (longer || others.contains(found)) continue;
        ++named;
        EXPECT_NE(schema.find(found), nullptr) << test::shown(file) << " names " << found;
      }
    }
  }
  EXPECT_GT(named, 500);
}

}  // namespace
}  // namespace viaduct
