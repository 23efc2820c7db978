#pragma once
// Which characters of a conversation's text are learned.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conversation/chat_renderer.h"
#include "conversation/conversation.h"
#include "data/tokenizer/added_tokens.h"

namespace viaduct {

/// What of a row is learned: every answer of the assistant, the last one, all but the first token,
/// or the completion of a prompt.
enum class TrainOn { assistant, last, all, completion };

/// The names of --train-on, in the order of TrainOn.
const std::vector<std::string>& train_on_names();
TrainOn train_on_of(std::string_view name);
/// What is learned where nothing is said.
TrainOn default_train_on(const Conversation& conversation);
/// The messages that are learned, ascending: of `all`, the answers among them.
std::vector<size_t> learned_answers(const Conversation& conversation, TrainOn train_on);
/// How many messages say that they are learned (`weight`, `train`), and are not by `train_on`.
size_t passed_over(const Conversation& conversation, TrainOn train_on);

/// Bytes [begin, end) of a text.
using TextRange = std::pair<size_t, size_t>;

/// A row before it is tokenized.
struct ConversationText {
  std::string text;
  std::vector<TextRange> answers;  // ascending, disjoint
  bool all = false;                // every token but the first is learned
  size_t messages = 0;             // how many first ones of the conversation it has; 0: all
  /// Ascending, disjoint: tokens that overlap these are not learned, whatever else is said.
  std::vector<TextRange> kept_out = {};
};

struct ConversationTexts {
  ConversationText whole;
  /// Answers that cannot be learned in the whole text, since the template shows them, or what is
  /// before them, otherwise there: each with its context.
  std::vector<ConversationText> own;

  /// Whether there is nothing to learn in the whole text, because it is in the others.
  bool is_covered() const { return whole.answers.empty() && !whole.all && !own.empty(); }
};

/// Finds the answers in the texts of conversations. Several threads may use one.
class AnswerFinder {
 public:
  /// `renderer` is null where only forms without a template come. `added` are the tokens of the
  /// tokenizer, of which special ones end answers (null: there is none). All must outlive it.
  AnswerFinder(const ChatRenderer* renderer, const AddedTokens* added, RenderOptions options)
      : renderer_(renderer), added_(added), options_(options) {}

  /// The texts of a conversation. A template with {% generation %} says which
  /// characters are answers. With another one, the text of the messages before an answer with
  /// add_generation_prompt is a prefix of the text up to and with it, and the answer is the rest,
  /// to its last special token if it has one. The completion of a text ends with what a prompt
  /// template puts behind it, up to the last special token there too. InvalidConversation if the
  /// template refuses the conversation, or hides where an answer begins; ConfigError where
  /// `train_on` has no meaning for the conversation's form, or there is no template. Messages that
  /// say that they are not learned are not, by `all` neither.
  ConversationTexts find(const Conversation& conversation, TrainOn train_on) const;

  /// The text of the whole conversation alone. InvalidConversation if the template refuses it,
  /// ConfigError without one.
  std::string text(const Conversation& conversation) const;

  /// The end of the last special token in `text`, nothing without one.
  std::optional<size_t> last_special_end(std::string_view text) const;

 private:
  /// ConfigError without a template.
  void check_renderer() const;

  const ChatRenderer* renderer_;
  const AddedTokens* added_;
  RenderOptions options_;
};

}  // namespace viaduct
