#pragma once
// The chat template of a model with the special tokens that it sees: conversations to text, as
// transformers' apply_chat_template renders them.

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conversation/conversation.h"
#include "template/chat_template.h"
#include "template/template_clock.h"

namespace viaduct {

class TokenizerFiles;

/// Named special tokens by the names of their variables ("bos_token", …), as texts.
using SpecialTokenTexts = std::vector<std::pair<std::string, std::string>>;

/// The named special tokens that the files of a tokenizer declare, as transformers gives them to
/// templates: bos_token, eos_token, unk_token, sep_token, pad_token, cls_token, mask_token. IoError
/// for malformed files.
SpecialTokenTexts special_token_texts(const TokenizerFiles& files);

/// The clock of the machine, for strftime_now.
TemplateClock local_clock();

struct RenderOptions {
  bool add_generation_prompt = false;
  std::optional<TemplateClock> clock;  // of strftime_now, which is an error without one
};

class ChatRenderer {
 public:
  /// The templates and special tokens of a model: its tokenizer files, from a folder or a GGUF file
  /// (model_folder.h). In transformers' order: chat_template.jinja with
  /// additional_chat_templates/NAME.jinja, chat_template.json, tokenizer_config.json. Nothing
  /// without a template; IoError for malformed files, TemplateError for templates that cannot be
  /// parsed.
  static std::optional<ChatRenderer> load(const TokenizerFiles& files);
  /// Of a template's text, which `where` names in messages.
  static ChatRenderer of_text(const std::string& text, const std::string& where,
                              SpecialTokenTexts special);
  /// --template FILE: its template, with the special tokens of a model.
  static ChatRenderer of_file(const std::filesystem::path& file, SpecialTokenTexts special);

  /// The same templates with other special tokens.
  ChatRenderer with_special_tokens(SpecialTokenTexts special) const;

  /// The text of the first `count` messages. TemplateError where Python raises an error.
  RenderedTemplate render(const Conversation& conversation, size_t count,
                          const RenderOptions& options) const;
  RenderedTemplate render(const Conversation& conversation, const RenderOptions& options) const {
    return render(conversation, conversation.messages.size(), options);
  }

  /// The text of all messages, and those of the first ones as far as one rendering tells them
  /// (chat_template.h); `options` have no add_generation_prompt.
  RenderedPrefixes render_prefixes(const Conversation& conversation,
                                   const RenderOptions& options) const;

  /// The template that renders a conversation: "tool_use", if there is one and the conversation has
  /// tools, else "default".
  const ChatTemplate& template_of(const Conversation& conversation) const;
  const SpecialTokenTexts& special_tokens() const { return special_; }
  /// Whether any of the templates reads the name ("strftime_now", "tools").
  bool reads(std::string_view name) const;
  /// Whether the source of any of the templates contains the text.
  bool contains(std::string_view text) const;
  /// Of all texts that rendering depends on: templates, and the special tokens whose names they
  /// contain.
  uint64_t hash() const { return hash(false); }
  /// The same with all special tokens, as data sets of earlier versions have it.
  uint64_t hash_with_all_tokens() const { return hash(true); }

 private:
  ChatRenderer() = default;
  void add(const std::string& name, const std::string& text, const std::string& where);
  uint64_t hash(bool all_tokens) const;
  TemplateVariables variables(const Conversation& conversation, size_t count,
                              const RenderOptions& options) const;

  std::map<std::string, ChatTemplate> templates_;  // by name; "default" or one
  std::string sources_;                            // of all templates
  SpecialTokenTexts special_;
};

}  // namespace viaduct
