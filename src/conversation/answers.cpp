#include "conversation/answers.h"

#include <algorithm>

#include "base/error.h"
#include "conversation/answer_place.h"
#include "conversation/prefixes.h"
#include "template/template_error.h"

namespace viaduct {
namespace {

bool learns_all_answers(const Conversation& conversation, const std::vector<size_t>& wanted) {
  const auto answers =
      std::count_if(conversation.messages.begin(), conversation.messages.end(),
                    [](const ChatMessage& message) { return message.is_answer(); });
  return static_cast<size_t>(answers) == wanted.size();
}

/// Ascending and disjoint.
std::vector<TextRange> merged(std::vector<TextRange> ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<TextRange> result;
  for (const TextRange& range : ranges) {
    if (range.first >= range.second) continue;
    if (!result.empty() && range.first < result.back().second) {
      result.back().second = std::max(result.back().second, range.second);
    } else {
      result.push_back(range);
    }
  }
  return result;
}

/// What the template's own blocks made of the wanted messages.
std::vector<TextRange> marked_answers(const ConversationPrefixes& prefixes,
                                      const Conversation& conversation,
                                      const std::vector<size_t>& wanted) {
  const std::vector<TextRange>& all = prefixes.whole().generations;
  if (learns_all_answers(conversation, wanted)) return merged(all);
  std::vector<TextRange> ranges;
  for (const size_t i : wanted) {
    const size_t begin = prefixes.generations(i), end = prefixes.generations(i + 1);
    if (begin > end || end > all.size())
      answer_not_found(i, "which generation blocks of the template are its answer is not clear");
    ranges.insert(ranges.end(), all.begin() + static_cast<ptrdiff_t>(begin),
                  all.begin() + static_cast<ptrdiff_t>(end));
  }
  return merged(std::move(ranges));
}

/// What a message that is no answer adds to the whole text.
TextRange added(const ConversationPrefixes& prefixes, size_t message) {
  try {
    const PrefixText before = message == 0 ? PrefixText() : prefixes.prefix(message, false);
    const PrefixText with = prefixes.prefix(message + 1, false);
    if (before.is_prefix() && with.is_prefix() && before.size() <= with.size())
      return {before.size(), with.size()};
  } catch (const TemplateError& error) {
    answer_not_found(message, error.what());
  }
  answer_not_found(message, "it is not to be learned, and its place in the text is not clear");
}

/// The messages that say that they are not learned, where everything else is.
std::vector<TextRange> kept_out(const AnswerFinder& finder, const ConversationPrefixes& prefixes,
                                const Conversation& conversation, bool has_generation) {
  std::vector<TextRange> ranges;
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    const ChatMessage& message = conversation.messages[i];
    if (message.learned) continue;
    if (!message.is_answer()) {
      ranges.push_back(added(prefixes, i));
      continue;
    }
    if (has_generation) {
      const auto marked = marked_answers(prefixes, conversation, {i});
      if (marked.empty())
        answer_not_found(i, "it is not to be learned, and no generation block has it");
      ranges.insert(ranges.end(), marked.begin(), marked.end());
      continue;
    }
    const AnswerPlace answer = answer_place(finder, prefixes, i);
    if (!answer.in_whole) {
      answer_not_found(i,
                       "it is not to be learned, and the template shows it otherwise in the whole "
                       "conversation");
    }
    ranges.push_back(answer.range);
  }
  return merged(std::move(ranges));
}

}  // namespace

const std::vector<std::string>& train_on_names() {
  static const std::vector<std::string> names{"assistant", "last", "all", "completion"};
  return names;
}

TrainOn train_on_of(std::string_view name) {
  const auto& names = train_on_names();
  const auto found = std::find(names.begin(), names.end(), name);
  VIADUCT_CHECK(ConfigError, found != names.end(), "\"{}\" is nothing to train on", name);
  return static_cast<TrainOn>(found - names.begin());
}

TrainOn default_train_on(const Conversation& conversation) {
  return conversation.form == ConversationForm::prompt_completion ||
                 conversation.form == ConversationForm::megatron
             ? TrainOn::completion
             : TrainOn::assistant;
}

std::vector<size_t> learned_answers(const Conversation& conversation, TrainOn train_on) {
  std::vector<size_t> wanted;
  const auto& messages = conversation.messages;
  if (train_on == TrainOn::last) {
    for (size_t i = messages.size(); i-- > 0;) {
      if (!messages[i].is_answer()) continue;
      if (messages[i].learned) wanted.push_back(i);
      break;
    }
    return wanted;
  }
  const size_t first = train_on == TrainOn::completion ? conversation.prompt_messages : 0;
  for (size_t i = first; i < messages.size(); ++i) {
    if (messages[i].is_answer() && messages[i].learned) wanted.push_back(i);
  }
  return wanted;
}

size_t passed_over(const Conversation& conversation, TrainOn train_on) {
  if (train_on == TrainOn::all) return 0;
  const auto asking = std::ranges::count_if(
      conversation.messages, [](const ChatMessage& message) { return message.says_learned; });
  const std::vector<size_t> learned = learned_answers(conversation, train_on);
  const auto heard = std::ranges::count_if(
      learned, [&](size_t i) { return conversation.messages[i].says_learned; });
  return static_cast<size_t>(asking - heard);
}

std::optional<size_t> AnswerFinder::last_special_end(std::string_view text) const {
  std::optional<size_t> end;
  if (added_ == nullptr) return end;
  for (const bool normalized : {false, true}) {
    added_->split(
        text, normalized, false, [](std::string_view) {},
        [&](int32_t id, std::string_view matched) {
          const AddedToken* token = added_->find(id);
          if (token == nullptr || !token->special) return;
          // Without the white space that the token takes beside it.
          const size_t at = matched.find(token->content);
          const auto begin = static_cast<size_t>(matched.data() - text.data());
          const size_t last =
              at == std::string_view::npos ? matched.size() : at + token->content.size();
          end = std::max(end.value_or(0), begin + last);
        });
  }
  return end;
}

void AnswerFinder::check_renderer() const {
  VIADUCT_CHECK(ConfigError, renderer_ != nullptr,
                "the model has no chat template (chat_template.jinja, or chat_template in "
                "tokenizer_config.json); give one with --template");
}

std::string AnswerFinder::text(const Conversation& conversation) const {
  if (conversation.plain) return conversation.plain->text;
  check_renderer();
  try {
    return renderer_->render(conversation, options_).text;
  } catch (const TemplateError& error) {
    throw InvalidConversation(ConversationProblem::refused_by_template, error.what());
  }
}

ConversationTexts AnswerFinder::find(const Conversation& conversation, TrainOn train_on) const {
  ConversationTexts texts;
  ConversationText& whole = texts.whole;
  whole.all = train_on == TrainOn::all;
  if (conversation.plain) {
    VIADUCT_CHECK(ConfigError, train_on == TrainOn::all || train_on == TrainOn::completion,
                  "--train-on {}: the texts of prompts and completions have no messages; expected "
                  "completion or all",
                  train_on_names()[static_cast<size_t>(train_on)]);
    whole.text = conversation.plain->text;
    if (!whole.all) {
      const auto& plain = *conversation.plain;
      const auto end = last_special_end(std::string_view(plain.text).substr(plain.answer_end));
      whole.answers =
          merged({{plain.answer_begin, end ? plain.answer_end + *end : plain.text.size()}});
    }
    return texts;
  }
  VIADUCT_CHECK(
      ConfigError,
      train_on != TrainOn::completion || conversation.form == ConversationForm::prompt_completion,
      "--train-on completion: the data are of the form {}, which has no completions; "
      "expected assistant, last or all",
      form_name(conversation.form));
  check_renderer();
  try {
    const ConversationPrefixes prefixes(*renderer_, conversation, options_);
    whole.text = prefixes.whole().text;
    const bool has_generation = renderer_->template_of(conversation).has_generation();
    if (whole.all) {
      whole.kept_out = kept_out(*this, prefixes, conversation, has_generation);
      return texts;
    }
    const std::vector<size_t> wanted = learned_answers(conversation, train_on);
    if (has_generation) {
      whole.answers = marked_answers(prefixes, conversation, wanted);
      return texts;
    }
    for (const size_t i : wanted) {
      AnswerPlace answer = answer_place(*this, prefixes, i);
      if (answer.in_whole) {
        whole.answers.push_back(answer.range);
      } else {
        texts.own.push_back({answer.with.text(whole.text), merged({answer.range}), false, i + 1});
      }
    }
    whole.answers = merged(std::move(whole.answers));
    return texts;
  } catch (const TemplateError& error) {
    throw InvalidConversation(ConversationProblem::refused_by_template, error.what());
  }
}

}  // namespace viaduct
