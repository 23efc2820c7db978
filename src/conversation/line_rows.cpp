#include "conversation/line_rows.h"

#include <algorithm>

#include "base/error.h"
#include "data/text_check.h"
#include "data/tokenizer/unicode.h"
#include "template/template_error.h"

namespace viaduct {
namespace {

using Problem = ConversationProblem;

/// The content of a message as one text; "" of parts.
std::string content_text(const ChatMessage& message) {
  const TemplateValue* content = message.value.as_map().find("content");
  return content != nullptr && content->is_text() ? content->as_text() : std::string();
}

}  // namespace

LineRows::LineRows(const ChatFilesSettings& settings, const AnswerFinder& finder,
                   const ControlTokens& control)
    : settings_(settings), finder_(finder), control_(control), encoder_(*settings.tokenizer) {}

PieceRows LineRows::convert(const ConversationPiece& piece) {
  PieceRows result;
  try {
    const bool well_formed = check_text(piece.path, piece.text, piece.offset);
    int64_t number = piece.first;
    for (std::string_view rest = piece.text; !rest.empty(); ++number) {
      const size_t newline = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, newline);
      rest.remove_prefix(std::min(newline + 1, rest.size()));
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      const std::string place = piece.place(number);
      try {
        convert_line(well_formed ? line : std::string_view(lossy_utf8(line)), place, result);
      } catch (const InvalidConversation& error) {
        ProblemCount& count = result.counts.problems[static_cast<size_t>(error.problem())];
        if (count.lines++ == 0) count.first = fmt::format("{}: {}", place, error.what());
      } catch (const ConfigError&) {
        throw;
      } catch (const IoError& error) {
        fail<IoError>("{}: {}", place, error.what());
      }
    }
    result.counts.bytes = static_cast<int64_t>(piece.text.size());
  } catch (...) {
    result.error = std::current_exception();
  }
  return result;
}

void LineRows::convert_line(std::string_view line, const std::string& place, PieceRows& result) {
  TemplateValue value;
  try {
    value = TemplateValue::from_json(line, "JSON");
  } catch (const Error& error) {
    throw InvalidConversation(Problem::not_json, error.what());
  }
  if (!value.is_map()) {
    throw InvalidConversation(Problem::not_json,
                              fmt::format("{}, expected an object", type_name(value)));
  }
  const ConversationForm form = form_of(value.as_map(), settings_.reading);
  if (!result.form) {
    result.form = form;
    result.form_place = place;
  }
  VIADUCT_CHECK(IoError, *result.form == form,
                "the form {}, but {} is of the form {}: a file has one form", form_name(form),
                result.form_place, form_name(*result.form));
  Conversation conversation = parse_conversation(value.as_map(), form, settings_.reading);
  const TrainOn train_on = settings_.train_on.value_or(default_train_on(conversation));
  control_.count(conversation, result.counts.control_tokens);
  if (settings_.control_tokens_as_text) conversation = control_.marked(conversation);
  ConversationTexts texts = finder_.find(conversation, train_on);
  ++result.counts.conversations;
  const std::string& name = train_on_names()[static_cast<size_t>(train_on)];
  if (result.counts.train_on.empty()) result.counts.train_on.push_back(name);
  if (!texts.is_covered()) add_row(std::move(texts.whole), conversation, result);
  for (ConversationText& own : texts.own) {
    // The last answer's row is the conversation's, whatever follows it.
    if (train_on != TrainOn::last) ++result.counts.own_rows;
    add_row(std::move(own), conversation, result);
  }
}

void LineRows::add_row(ConversationText text, const Conversation& conversation, PieceRows& result) {
  const bool may_cut = settings_.max_length && settings_.overlong == Overlong::truncate_start;
  const std::string whole = may_cut ? text.text : std::string();
  ChatRow row = encoder_.encode(std::move(text));
  result.counts.unknown_bytes += row.unknown_bytes;
  if (!fit(whole, conversation, row, result)) return;
  const int64_t scored = row.scored();
  // Nothing predicts the first token.
  if (scored == 0 || (scored == 1 && row.mask.front() != 0)) {
    ++result.counts.dropped;
    return;
  }
  ++result.counts.rows;
  result.counts.scored += scored;
  result.counts.tokens += static_cast<int64_t>(row.ids.size());
  result.rows.push_back(std::move(row));
}

bool LineRows::fit(const std::string& text, const Conversation& conversation, ChatRow& row,
                   PieceRows& result) {
  const auto length = static_cast<int64_t>(row.ids.size());
  result.counts.longest = std::max(result.counts.longest, length);
  if (!settings_.max_length || length <= *settings_.max_length) return true;
  ++result.counts.overlong;
  if (settings_.overlong <= Overlong::drop) return false;
  const auto most = static_cast<size_t>(*settings_.max_length);
  size_t kept = 0;  // at the front, before the gap
  if (settings_.overlong == Overlong::truncate_start)
    kept = std::min(system_tokens(text, conversation, row), most);
  const auto cut = [&](auto& values) {
    if (settings_.overlong == Overlong::truncate_end) {
      values.resize(most);
    } else {
      const auto begin = values.begin() + static_cast<ptrdiff_t>(kept);
      values.erase(begin, begin + static_cast<ptrdiff_t>(values.size() - most));
    }
  };
  cut(row.ids);
  cut(row.mask);
  return true;
}

size_t LineRows::system_tokens(const std::string& text, const Conversation& conversation,
                               const ChatRow& row) {
  if (conversation.messages.empty()) return 0;
  const ChatMessage& first = conversation.messages.front();
  if (first.role != "system" && first.role != "developer") return 0;
  ConversationText front;
  try {
    front.text = settings_.renderer->render(conversation, 1, {false, settings_.clock}).text;
  } catch (const TemplateError&) {
    // Some templates show it only with the first question.
  }
  if (front.text.empty() || !text.starts_with(front.text)) {
    const std::string content = content_text(first);
    const size_t at = content.empty() ? std::string::npos : text.find(content);
    if (at == std::string::npos) return 0;
    front.text = text.substr(0, at + content.size());
  }
  const std::vector<int32_t> ids = encoder_.encode(std::move(front)).ids;
  const auto most = static_cast<ptrdiff_t>(std::min(ids.size(), row.ids.size()));
  return static_cast<size_t>(std::mismatch(ids.begin(), ids.begin() + most, row.ids.begin()).first -
                             ids.begin());
}

}  // namespace viaduct
