#include "checkpoint/gguf_tokenizer_differences.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/json_reader.h"
#include "checkpoint/gguf_tokenizer.h"

namespace viaduct {
namespace {

struct Probe {
  std::string kind;  // of texts, for people
  std::string text;
};

std::vector<Probe> probes_for(const Tokenizer& tokenizer) {
  std::vector<Probe> probes = {
      {"texts that begin with a word", "a word"},
      {"texts that begin with a space", " a word"},
      {"texts that end with a space", "a word "},
      {"runs of spaces", "a  word"},
      {"lines", "a\nword\n\n"},
      {"capital letters", "A Word"},
      {"numbers", "12345 6"},
      {"letters with accents, of two code points", "e\u0301"},
      {"characters that stand for others, such as ligatures and wide letters", "\ufb01 \uff21"}};
  bool special = false;
  for (const AddedToken& token : tokenizer.added_tokens().tokens()) {
    if (token.special && tokenizer.splits_special()) continue;
    if (token.single_word || token.lstrip || token.rstrip) {
      probes.push_back(
          {fmt::format("text around the added token \"{}\"", shown_name(token.content)),
           fmt::format("a word {0} a{0}word", token.content)});
    } else if (token.special && !std::exchange(special, true)) {
      probes.push_back({"text right after a special token", token.content + "a word"});
    }
  }
  return probes;
}

}  // namespace

std::vector<std::string> gguf_tokenizer_differences(const GgufKeys& keys,
                                                    const Tokenizer& tokenizer) {
  std::vector<std::string> notes, not_read;
  try {
    const TokenizerFiles files(keys.where(), tokenizer_of_gguf(keys, not_read));
    if (!not_read.empty()) return notes;
    const Tokenizer said = load_tokenizer(files);
    for (const auto& [kind, text] : probes_for(tokenizer)) {
      if (said.encode(text) == tokenizer.encode(text)) continue;
      notes.push_back(fmt::format(
          "GGUF: {}: llama.cpp will cut them into other tokens than this tokenizer, for it has no "
          "key for the difference",
          kind));
    }
  } catch (const Error& error) {
    notes.push_back(fmt::format(
        "GGUF: no program may be able to use the tokenizer's keys, for they say another tokenizer "
        "than the files: {}",
        error.what()));
  }
  return notes;
}

}  // namespace viaduct
