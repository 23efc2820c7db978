#include "support/chat_tokenizer.h"

#include "base/file.h"
#include "base/json.h"
#include "base/output_file.h"
#include "support/whole_tokenizer.h"

namespace viaduct::test {
namespace {

using nlohmann::json;

std::string tokenizer_text() {
  json vocabulary = json::object();
  int id = 0;
  for (char c = '!'; c <= '~'; ++c) vocabulary[std::string(1, c)] = id++;
  for (const char* letter : {"\u0120", "\u010a", "\u00c3", "\u00a9"}) vocabulary[letter] = id++;
  json added = json::array();
  for (const char* token : {"<|im_start|>", "<|im_end|>", "<s>", "</s>"}) {
    added.push_back({{"id", id++}, {"content", token}, {"special", true}, {"normalized", false}});
  }
  added.push_back(
      {{"id", id++}, {"content", "<think>"}, {"special", false}, {"normalized", false}});
  return whole_tokenizer(
             {{"added_tokens", added},
              {"normalizer", nullptr},
              {"pre_tokenizer",
               {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
              {"post_processor", nullptr},
              {"decoder", {{"type", "ByteLevel"}}},
              {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}})
      .dump();
}

}  // namespace

const char* const kChatMl =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\\n' }}{% endif %}";

const char* const kChatMlGeneration =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' "
    "}}{% endgeneration %}{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}"
    "{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
    "{% endif %}";

Tokenizer chat_tokenizer() {
  return parse_tokenizer(tokenizer_text());
}

void write_chat_model(const std::filesystem::path& folder, const std::string& chat_template) {
  std::filesystem::create_directories(folder);
  write_file_atomically(folder / "tokenizer.json", tokenizer_text());
  write_file_atomically(folder / "tokenizer_config.json",
                        json{{"bos_token", "<s>"},
                             {"eos_token", {{"content", "<|im_end|>"}}},
                             {"chat_template", chat_template}}
                            .dump());
}

std::string bracketed(const Tokenizer& tokenizer, const ChatRow& row) {
  std::string text;
  bool learned = false;
  for (size_t i = 0; i < row.ids.size(); ++i) {
    if ((row.mask[i] != 0) != learned) text += learned ? "]" : "[";
    learned = row.mask[i] != 0;
    text += tokenizer.decode(std::span(&row.ids[i], 1));
  }
  return learned ? text + "]" : text;
}

}  // namespace viaduct::test
