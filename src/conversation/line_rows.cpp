#include "conversation/line_rows.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/function_ref.h"
#include "base/units.h"
#include "conversation/context_visibility.h"
#include "conversation/line_members.h"
#include "conversation/message_images.h"
#include "conversation/shorten.h"
#include "conversation/text_parts.h"
#include "conversation/tool_visibility.h"
#include "data/text_check.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

using Problem = ConversationProblem;

/// IoError for a zero byte: no text has one.
void check_no_zero(const ConversationPiece& piece) {
  const size_t zero = piece.text.find('\0');
  VIADUCT_CHECK(IoError, zero == std::string::npos,
                "{}: a zero byte at offset {}: binary content, expected text in UTF-8", piece.path,
                piece.offset + zero);
}

void check_utf8(std::string_view line) {
  const std::string problem = ill_formed_places(line);
  if (!problem.empty()) throw InvalidConversation(Problem::not_utf8, problem);
}

void count_line(ProblemCount& problem, const std::string& place, std::string_view what) {
  if (problem.lines++ == 0) problem.first = fmt::format("{}: {}", place, what);
}

/// Keeps the last `most` tokens of a prompt and its completion. False if that would leave a
/// completion without any of its prompt.
bool cut_start(ChatRow& row, size_t most, bool all) {
  const auto removed = static_cast<ptrdiff_t>(row.ids.size() - most);
  const auto answer = std::ranges::find(row.mask, 1) - row.mask.begin();
  if (!all && answer > 0 && removed >= answer) return false;
  row.ids.erase(row.ids.begin(), row.ids.begin() + removed);
  row.mask.erase(row.mask.begin(), row.mask.begin() + removed);
  if (all) row.mask.front() = 0;
  return true;
}

/// The row of the smallest i below `count` that has one, where every larger i has one too; nothing
/// if the largest has none.
std::optional<ChatRow> fewest_removed(size_t count,
                                      FunctionRef<std::optional<ChatRow>(size_t i)> row_at) {
  size_t low = 0, high = count - 1;
  std::optional<ChatRow> best = row_at(high);
  while (best && low < high) {
    const size_t middle = low + (high - low) / 2;
    if (std::optional<ChatRow> row = row_at(middle)) {
      best = std::move(row);
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return best;
}

}  // namespace

LineRows::LineRows(const ChatFilesSettings& settings, const AnswerFinder& finder,
                   const ControlTokens& control)
    : settings_(settings), finder_(finder), control_(control), encoder_(*settings.tokenizer) {}

PieceRows LineRows::convert(const ConversationPiece& piece) {
  PieceRows result;
  try {
    check_no_zero(piece);
    const bool well_formed = is_valid_utf8(piece.text);
    const auto folder = std::filesystem::path(piece.path).parent_path();
    int64_t number = piece.first;
    for (std::string_view rest = piece.text; !rest.empty(); ++number) {
      const size_t newline = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, newline);
      rest.remove_prefix(std::min(newline + 1, rest.size()));
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      const std::string place = piece.place(number);
      try {
        if (!well_formed) check_utf8(line);
        convert_line(line, place, folder, result);
      } catch (const InvalidConversation& error) {
        count_line(result.counts.problems[static_cast<size_t>(error.problem())], place,
                   error.what());
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

void LineRows::read_pictures(const Conversation& conversation,
                             const std::filesystem::path& folder) {
  pictures_.clear();
  for (const std::string& path : images_of(conversation)) {
    if (pictures_.contains(path)) continue;
    try {
      pictures_.emplace(path, read_picture_file(folder / path));
    } catch (const IoError& error) {
      throw InvalidConversation(Problem::broken_image, error.what());
    }
  }
}

ChatRow LineRows::encoded(ConversationText text, const Conversation& conversation) {
  if (settings_.images == nullptr) return encoder_.encode(std::move(text), is_apart(conversation));
  const ImagePlaces& places = *settings_.images;
  const std::vector<std::string> images = images_of(conversation, text.messages);
  places.expand(text, images.size());
  ChatRow row = encoder_.encode(std::move(text));
  for (const std::string& path : images) row.images.push_back(pictures_.at(path));
  const int64_t expected = static_cast<int64_t>(images.size()) * places.tokens().count;
  if (const int64_t found = places.count(row); found != expected) {
    throw InvalidConversation(
        Problem::hidden_images,
        fmt::format("{} times {}, expected {} for {}: the text of a message spells it", found,
                    places.tokens().token, expected,
                    counted(static_cast<int64_t>(images.size()), "picture")));
  }
  return row;
}

void LineRows::convert_line(std::string_view line, const std::string& place,
                            const std::filesystem::path& folder, PieceRows& result) {
  const TemplateValue value = line_object(line);
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
  join_parts(conversation, place, result.counts);
  control_.count(conversation, result.counts.control_tokens);
  if (settings_.control_tokens_as_text) conversation = control_.marked(conversation);
  if (settings_.images != nullptr) {
    read_pictures(conversation, folder);
    conversation = settings_.images->shown(std::move(conversation));
  }
  ConversationTexts texts = finder_.find(conversation, train_on);
  // Of a conversation with an invalid row there is none.
  std::vector<std::pair<ChatRow, size_t>> rows;
  const auto encode = [&](ConversationText& text) {
    const size_t messages = text.messages;
    rows.emplace_back(encoded(std::move(text), conversation), messages);
  };
  const bool covered = texts.is_covered();
  const std::string whole = texts.whole.text;
  if (!covered) encode(texts.whole);
  for (ConversationText& own : texts.own) encode(own);
  check_tools(conversation, train_on, place, result.counts);
  count_context(conversation, whole, place, result.counts);
  if (const size_t messages = passed_over(conversation, train_on); messages > 0) {
    count_line(result.counts.passed_over, place,
               counted(static_cast<int64_t>(messages), "such message"));
  }
  ++result.counts.conversations;
  const std::string& name = train_on_names()[static_cast<size_t>(train_on)];
  if (result.counts.train_on.empty()) result.counts.train_on.push_back(name);
  // The last answer's row is the conversation's, whatever follows it.
  if (train_on != TrainOn::last) result.counts.own_rows += static_cast<int64_t>(texts.own.size());
  for (auto& [row, messages] : rows)
    add_row(std::move(row), messages, conversation, train_on, result);
}

void LineRows::join_parts(Conversation& conversation, const std::string& place,
                          ChatFilesResult& counts) const {
  if (conversation.plain || settings_.renderer == nullptr || settings_.images != nullptr) return;
  const size_t joined =
      join_text_parts(*settings_.renderer, conversation, {false, settings_.clock});
  if (joined > 0)
    count_line(counts.joined_parts, place, counted(static_cast<int64_t>(joined), "message"));
}

void LineRows::check_tools(const Conversation& conversation, TrainOn train_on,
                           const std::string& place, ChatFilesResult& counts) const {
  const auto& messages = conversation.messages;
  const bool has_calls = std::ranges::any_of(
      messages, [](const ChatMessage& message) { return message.has("tool_calls"); });
  const TemplateValue& tools = conversation.tools;
  const bool has_tools = tools.is_list() && !tools.as_list().items.empty();
  if (!has_calls && !has_tools) return;
  std::string hidden = "the tools";  // of a text without messages
  if (!conversation.plain) {
    const ToolVisibility visibility(*settings_.renderer, conversation, {false, settings_.clock});
    for (const size_t i : learned_answers(conversation, train_on)) {
      if (messages[i].has_words() || visibility.shows_calls(i)) continue;
      throw InvalidConversation(
          Problem::hidden_calls,
          fmt::format("message {}: an answer of tool calls alone, which the template does not show",
                      i + 1));
    }
    hidden = visibility.hidden();
  }
  if (!hidden.empty()) count_line(counts.hidden_tools, place, hidden);
}

void LineRows::count_context(const Conversation& conversation, std::string_view text,
                             const std::string& place, ChatFilesResult& counts) const {
  const std::string hidden =
      conversation.plain
          ? conversation.documents.is_none() ? "" : "the documents"
          : hidden_context(*settings_.renderer, conversation, {false, settings_.clock});
  if (!hidden.empty()) count_line(counts.hidden_context, place, hidden);
  if (const auto message = arguments_encoded_twice(conversation, text))
    count_line(counts.encoded_twice, place, fmt::format("message {}", *message + 1));
}

int64_t LineRows::open_ends(const ChatRow& row) const {
  const auto is_blank = [&](int32_t id) {
    const std::string text = settings_.tokenizer->decode(std::span(&id, 1));
    return text.find_first_not_of(" \t\r\n") == std::string::npos;
  };
  int64_t open = 0;
  for (size_t end = 1; end <= row.ids.size(); ++end) {
    const bool ends = row.mask[end - 1] != 0 && (end == row.ids.size() || row.mask[end] == 0);
    if (!ends) continue;
    const AddedToken* last = nullptr;
    for (size_t i = end; i > 0 && row.mask[i - 1] != 0; --i) {
      last = settings_.tokenizer->added_tokens().find(row.ids[i - 1]);
      if ((last != nullptr && last->special) || !is_blank(row.ids[i - 1])) break;
    }
    if (last == nullptr || !last->special) ++open;
  }
  return open;
}

void LineRows::add_row(ChatRow row, size_t messages, const Conversation& conversation,
                       TrainOn train_on, PieceRows& result) {
  result.counts.unknown_bytes += row.unknown_bytes;
  if (conversation.plain) {
    // The rows of such a model get its end token.
    if (!is_apart(conversation)) result.counts.open_ends += open_ends(row);
  } else if (train_on != TrainOn::all) {
    result.counts.open_answers += open_ends(row);
  }
  const auto length = static_cast<int64_t>(row.ids.size());
  result.counts.longest = std::max(result.counts.longest, length);
  if (settings_.max_length && length > *settings_.max_length) {
    ++result.counts.overlong;
    if (settings_.overlong <= Overlong::drop) return;
    const bool cut = messages > 0
                         ? shorten(row, first_messages(conversation, messages), TrainOn::last)
                         : shorten(row, conversation, train_on);
    if (!cut) {
      ++result.counts.unfit;
      return;
    }
  }
  const int64_t scored = row.scored();
  // Nothing predicts the first token, but for the token that starts an answer of its own.
  if (scored == 0 || (scored == 1 && row.mask.front() != 0 && !is_apart(conversation))) {
    ++result.counts.dropped;
    return;
  }
  const auto written = static_cast<int64_t>(row.ids.size());
  ++result.counts.rows;
  result.counts.images += static_cast<int64_t>(row.images.size());
  result.counts.scored += scored;
  result.counts.tokens += written;
  result.counts.longest_written = std::max(result.counts.longest_written, written);
  result.rows.push_back(std::move(row));
}

bool LineRows::shorten(ChatRow& row, const Conversation& conversation, TrainOn train_on) {
  const auto most = static_cast<size_t>(*settings_.max_length);
  if (settings_.overlong == Overlong::truncate_end) {
    row.ids.resize(most);
    row.mask.resize(most);
    if (settings_.images != nullptr) settings_.images->close(row);
    return true;
  }
  if (conversation.plain) return cut_start(row, most, train_on == TrainOn::all);
  std::optional<ChatRow> shorter = without_first_turns(conversation, train_on);
  if (shorter) row = std::move(*shorter);
  return shorter.has_value();
}

std::optional<ChatRow> LineRows::without_first_turns(const Conversation& conversation,
                                                     TrainOn train_on) {
  const std::vector<size_t> begins = later_questions(conversation);
  const auto from = [&](size_t i) { return without_turns_before(conversation, begins[i]); };
  if (!begins.empty()) {
    auto row = fewest_removed(begins.size(), [&](size_t i) { return fitting(from(i), train_on); });
    if (row) return row;
  }
  // Not even the last question and its answer fit: the question loses its beginning, but not all.
  const Conversation last = begins.empty() ? conversation : from(begins.size() - 1);
  const std::string question = first_question(last);
  std::vector<size_t> characters;  // where each begins
  for (size_t i = 0; i < question.size(); ++i)
    if ((static_cast<unsigned char>(question[i]) & 0xc0) != 0x80) characters.push_back(i);
  if (characters.size() < 2) return std::nullopt;
  return fewest_removed(characters.size() - 1, [&](size_t i) {
    return fitting(with_first_question(last, question.substr(characters[i + 1])), train_on);
  });
}

std::optional<ChatRow> LineRows::fitting(const Conversation& conversation, TrainOn train_on) {
  try {
    ConversationTexts texts = finder_.find(conversation, train_on);
    const bool covered = texts.is_covered();
    // The other answers that have rows of their own are in those.
    if (covered && train_on != TrainOn::last) return std::nullopt;
    ChatRow row = encoded(std::move(covered ? texts.own.back() : texts.whole), conversation);
    if (static_cast<int64_t>(row.ids.size()) > *settings_.max_length) return std::nullopt;
    return row;
  } catch (const InvalidConversation&) {
    return std::nullopt;  // a template that wants another beginning
  }
}

}  // namespace viaduct
