#include "inference/sample_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "checkpoint/model_folder.h"
#include "config/problems.h"
#include "data/tokenizer/text_ids.h"
#include "generate/adapter_choice.h"
#include "generate/chat_prompts.h"

namespace viaduct {
namespace {

// Prompts that are answered together; more would only take memory for their keys and values.
constexpr int64_t kAtOnce = 16;

/// Of a line of JSONL that is no text.
bool has_messages(const nlohmann::json& document) {
  return document.is_object() &&
         (document.contains("messages") || document.contains("conversations"));
}

/// Makes prompts of lines.
class Asker {
 public:
  Asker(const Tokenizer& tokenizer, const PromptAsking& asking)
      : tokenizer_(tokenizer), asking_(asking) {
    // Opened only where it is used: a broken one is no matter of texts.
    if (asking_.as_messages) open_template();
  }

  /// ConfigError for a conversation that cannot be put, and for one that asks for an adapter by its
  /// name, or is JSON without a prompt.
  PromptText prompt(const PromptText& line, bool jsonl) {
    nlohmann::json document;
    if (jsonl) document = prompt_document(line);
    if (jsonl) adapter_number(chosen_adapter(document, line.where), {}, line.where);
    if (has_messages(document)) {
      open_template();
      VIADUCT_CHECK(ConfigError, chat_.has_value(),
                    "{}: a conversation, and {} has no chat template; expected a \"prompt\"",
                    line.where, asking_.tokenizer.string());
      return put(read_conversation(line.text, line.where), line.where);
    }
    PromptText text = plain_prompts({{line}, jsonl}).front();
    if (!asking_.as_messages || !chat_ || text.text.empty()) return text;
    return put(conversation_of(text.text), text.where);
  }

  std::optional<int32_t> end_of_turn() const {
    return put_ > 0 ? chat_->end_of_turn() : std::nullopt;
  }

  /// "validation.sample_prompts: 2 prompts are put as conversations, by the chat template of DIR".
  std::string form(int64_t prompts) const {
    const std::string folder = asking_.tokenizer.string();
    std::string form = "validation.sample_prompts: ";
    if (put_ > 0) {
      form += fmt::format(
          "{}, by the chat template of {}",
          counted(put_, "prompt is put as a conversation", "prompts are put as conversations"),
          folder);
    }
    const int64_t texts = prompts - put_;
    if (texts > 0) {
      form += fmt::format("{}{}", put_ > 0 ? "; " : "",
                          counted(texts, "prompt is continued as it stands",
                                  "prompts are continued as they stand"));
    }
    if (texts > 0 && asking_.as_messages) {
      form +=
          fmt::format(": the run's data are conversations, but {} has no chat template", folder);
    }
    return form;
  }

 private:
  void open_template() {
    if (std::exchange(looked_, true)) return;
    auto renderer = ChatRenderer::load(open_tokenizer_files(asking_.tokenizer));
    if (!renderer) return;
    chat_.emplace(std::move(*renderer), tokenizer_, ChatPrompts::Settings{asking_.clock});
  }

  PromptText put(const Conversation& conversation, const std::string& where) {
    PromptText prompt = chat_->prompt(conversation, where);
    ++put_;
    return prompt;
  }

  const Tokenizer& tokenizer_;
  const PromptAsking& asking_;
  bool looked_ = false;
  std::optional<ChatPrompts> chat_;
  int64_t put_ = 0;
};

}  // namespace

SamplePrompts read_sample_prompts(const std::filesystem::path& file, const Tokenizer& tokenizer,
                                  const PromptAsking& asking, int64_t positions,
                                  int64_t new_tokens) {
  constexpr const char* kField = "validation.sample_prompts";
  const PromptLines lines = read_prompt_file(file, kField);
  SamplePrompts read;
  Asker asker(tokenizer, asking);
  Problems problems;
  for (const PromptText& line : lines.lines) {
    try {
      read.texts.push_back(asker.prompt(line, lines.jsonl));
    } catch (const ConfigError& error) {
      for (const std::string& problem : error.problems()) problems.add("{}: {}", kField, problem);
      continue;
    }
    const PromptText& text = read.texts.back();
    Prompt prompt{static_cast<int64_t>(read.prompts.size()),
                  text.ids ? *text.ids : text_ids(tokenizer, text.text)};
    const bool empty = text.text.empty() || prompt.ids.empty();
    prompt.continues = !text.ids;
    if (asking.encoder != nullptr && !empty) give_to_encoder(prompt, *asking.encoder);
    const int64_t room = positions - prompt.prompt_tokens();
    if (empty) {
      problems.add("{}: {}: empty; expected a text", kField, text.where);
    } else if (room <= 0) {
      problems.add("{}: {}: {} tokens leave no room for an answer in model.seq_length={}", kField,
                   text.where, prompt.prompt_tokens(), positions);
    }
    prompt.max_new_tokens = std::min(new_tokens, room);
    read.prompts.push_back(std::move(prompt));
  }
  problems.throw_if_any();
  read.end_of_turn = asker.end_of_turn();
  read.form = asker.form(static_cast<int64_t>(read.prompts.size()));
  return read;
}

std::vector<std::string> answer_prompts(Engine& engine, const Tokenizer& tokenizer,
                                        const SamplePrompts& prompts) {
  const ResolvedRun& run = engine.run();
  GeneratorSettings settings{run.layers, run.parallelism, run.memory};
  settings.positions = longest(prompts.prompts);
  Generator generator({engine.model(), engine.context(false, false), engine.hooks()}, settings,
                      engine.groups());
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.stop_tokens = stop_tokens(tokenizer, engine.model().config());
  if (prompts.end_of_turn) options.stop_tokens.push_back(*prompts.end_of_turn);
  std::vector<std::string> answers(prompts.prompts.size());
  for (const std::vector<Prompt>& batch : batches_by_length(prompts.prompts, kAtOnce)) {
    const std::vector<Generated> generated =
        generate(generator, batch, options, [](size_t, int32_t) { return true; });
    for (size_t i = 0; i < batch.size(); ++i) {
      answers[static_cast<size_t>(batch[i].number)] =
          shown_text(tokenizer, generated[i].tokens, batch[i].text_before());
    }
  }
  return answers;
}

}  // namespace viaduct
