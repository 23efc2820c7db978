#include "conversation/chat_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <ranges>

#include "base/error.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "conversation/conversation_source.h"
#include "conversation/line_rows.h"
#include "data/image_files.h"
#include "data/indexed_dataset_writer.h"
#include "data/token_record.h"
#include "data/tokenizer/vocabulary_hash.h"
#include "image/image_index.h"

namespace viaduct {
namespace {

// Pieces a worker and round: enough that workers end a round at nearly the same time.
constexpr size_t kPiecesPerWorker = 8;

void check_settings(const ChatFilesSettings& settings) {
  VIADUCT_CHECK(ConfigError, settings.workers >= 1, "{} workers, expected 1 or more",
                settings.workers);
  VIADUCT_CHECK(ConfigError, !settings.inputs.empty(), "no chat files to read");
  VIADUCT_CHECK(ConfigError, std::count(settings.inputs.begin(), settings.inputs.end(), "-") <= 1,
                "standard input (-) can be read once, and is given more than once");
  VIADUCT_CHECK(ConfigError, !settings.max_length || *settings.max_length >= 1,
                "a largest length of {} tokens, expected 1 or more", *settings.max_length);
  VIADUCT_CHECK(
      ConfigError, !settings.completions_apart || settings.train_on != TrainOn::all,
      "--train-on all: the tokenizer's model has an encoder, which reads what is in front "
      "of the learned tokens, and here that would be one token; expected completion, "
      "assistant or last");
}

/// Both files of the dataset, and what they hold so far.
class ChatWriter {
 public:
  explicit ChatWriter(const ChatFilesSettings& settings)
      : settings_(settings),
        tokens_(settings.output, settings.type),
        mask_(settings.output.string() + ".mask", TokenType::uint8) {
    if (settings.images == nullptr) return;
    const ImageTokens& tokens = settings.images->tokens();
    images_.emplace(settings.output, ImagePlaceTokens{tokens.id, tokens.count});
  }

  void add(const ChatRow& row) {
    tokens_.add_document(row.ids);
    const std::vector<int32_t> mask(row.mask.begin(), row.mask.end());
    mask_.add_document(mask);
    if (images_) images_->add_row(row.images);
  }
  /// Pictures of all rows that are not the same.
  int64_t pictures() const { return images_ ? images_->pictures() : 0; }
  void finish(const ChatFilesResult& result) {
    // Mask and pictures come first: tokens without a mask would be learned all.
    if (pictures() > 0) {
      images_->finish();
    } else {
      remove_images(settings_.output.string());
    }
    mask_.finish();
    tokens_.finish();
    TokenRecord record;
    record.largest_token = tokens_.largest_token();
    record.separator = -1;
    const auto hashes = vocabulary_hashes(
        *settings_.tokenizer,
        std::max<int64_t>(record.largest_token + 1, settings_.tokenizer->vocab_size()));
    record.vocabulary = hashes[static_cast<size_t>(record.largest_token) + 1];
    ConversationRecord& chat = record.conversations.emplace();
    chat.train_on = fmt::format("{}", fmt::join(result.train_on, ", "));
    chat.tokenizer = hashes.back();
    if (settings_.renderer != nullptr) chat.chat_templates = {settings_.renderer->hash()};
    chat.control_tokens_as_text = settings_.control_tokens_as_text;
    chat.own_rows = result.own_rows;
    chat.scored = result.scored;
    chat.images = result.images;
    write_token_record(settings_.output, record);
  }

 private:
  const ChatFilesSettings& settings_;
  IndexedDatasetWriter tokens_, mask_;
  std::optional<ImageIndexWriter> images_;
};

/// Adds what a piece was found to hold. `form` is that of its file so far.
void take_counts(const PieceRows& piece, ChatFilesResult& result) {
  const ChatFilesResult& more = piece.counts;
  result.conversations += more.conversations;
  result.rows += more.rows;
  result.tokens += more.tokens;
  result.scored += more.scored;
  result.own_rows += more.own_rows;
  result.images += more.images;
  result.bytes += more.bytes;
  result.overlong += more.overlong;
  result.longest = std::max(result.longest, more.longest);
  result.longest_written = std::max(result.longest_written, more.longest_written);
  result.unfit += more.unfit;
  result.dropped += more.dropped;
  result.open_ends += more.open_ends;
  result.open_answers += more.open_answers;
  result.unknown_bytes += more.unknown_bytes;
  const auto take = [](const ProblemCount& from, ProblemCount& to) {
    if (to.lines == 0) to.first = from.first;
    to.lines += from.lines;
  };
  for (size_t i = 0; i < result.problems.size(); ++i) take(more.problems[i], result.problems[i]);
  take(more.hidden_tools, result.hidden_tools);
  take(more.hidden_context, result.hidden_context);
  take(more.encoded_twice, result.encoded_twice);
  take(more.joined_parts, result.joined_parts);
  take(more.passed_over, result.passed_over);
  for (const auto& [token, count] : more.control_tokens) result.control_tokens[token] += count;
  for (const std::string& name : more.train_on) {
    if (std::find(result.train_on.begin(), result.train_on.end(), name) == result.train_on.end())
      result.train_on.push_back(name);
  }
}

/// "2 lines: an unknown role (the first: FILE:3: …); 1 line: …".
std::string problems_by_kind(const ChatFilesResult& result) {
  std::vector<std::string> kinds;
  for (size_t i = 0; i < result.problems.size(); ++i) {
    const ProblemCount& problem = result.problems[i];
    if (problem.lines == 0) continue;
    kinds.push_back(fmt::format("{}: {} (the first: {})", counted(problem.lines, "line"),
                                problem_name(static_cast<ConversationProblem>(i)), problem.first));
  }
  return fmt::format("{}", fmt::join(kinds, "; "));
}

void check_problems(const ChatFilesSettings& settings, const ChatFilesResult& result) {
  if (settings.skip_invalid || result.invalid() == 0) return;
  fail<IoError>("{} cannot be learned from: {}; --invalid skip leaves them out",
                counted(result.invalid(), "conversation"), problems_by_kind(result));
}

void check_rows(const ChatFilesSettings& settings, const ChatFilesResult& result) {
  if (settings.max_length && settings.overlong == Overlong::refuse && result.overlong > 0) {
    fail<IoError>(
        "{} longer than --max-length {}, the longest of {} tokens; --overlong truncate_end, "
        "truncate_start or drop says what becomes of them",
        counted(result.overlong, "row is", "rows are"), *settings.max_length, result.longest);
  }
  if (result.rows > 0) return;
  VIADUCT_CHECK(IoError, result.conversations > 0 || result.invalid() > 0,
                "no row with a token to learn: the input is empty ({})",
                fmt::join(settings.inputs | std::views::transform([](const auto& path) {
                            return path == "-" ? "standard input" : path.string();
                          }),
                          ", "));
  std::string dropped = counted(result.dropped, "row") + " without a learned token dropped";
  if (settings.max_length && settings.overlong == Overlong::drop)
    dropped += fmt::format(", {} longer than --max-length {} dropped (the longest has {})",
                           counted(result.overlong, "row"), *settings.max_length,
                           counted(result.longest, "token"));
  if (result.unfit > 0)
    dropped += fmt::format(", {} whose last answer and its question do not fit into {} dropped",
                           counted(result.unfit, "row"), counted(*settings.max_length, "token"));
  if (result.invalid() > 0) {
    dropped += fmt::format(", {} left out: {}", counted(result.invalid(), "line"),
                           problems_by_kind(result));
  }
  fail<IoError>("no row with a token to learn: {} read, {}",
                counted(result.conversations, "conversation"), dropped);
}

}  // namespace

const std::vector<std::string>& overlong_names() {
  static const std::vector<std::string> names{"refuse", "drop", "truncate_end", "truncate_start"};
  return names;
}

int64_t ChatFilesResult::invalid() const {
  return std::accumulate(
      problems.begin(), problems.end(), int64_t{0},
      [](int64_t sum, const ProblemCount& problem) { return sum + problem.lines; });
}

ChatFilesResult convert_chat_files(
    const ChatFilesSettings& settings,
    const std::function<void(int64_t done, int64_t total)>& progress) {
  check_settings(settings);
  // All files are looked at first: a missing last one is reported now, not after an hour.
  const int64_t total = stored_bytes_of(settings.inputs);
  const AnswerFinder finder(settings.renderer, &settings.tokenizer->added_tokens(),
                            {false, settings.clock});
  const ControlTokens control(settings.tokenizer->added_tokens(), settings.renderer);
  ThreadPool pool(settings.workers);
  std::deque<LineRows> workers;
  for (int i = 0; i < settings.workers; ++i) workers.emplace_back(settings, finder, control);
  ChatWriter writer(settings);
  ConversationSource source(settings.inputs);
  ChatFilesResult result;
  std::optional<ConversationForm> form;
  std::string form_place;
  size_t file = 0;
  std::vector<ConversationPiece> pieces;
  std::vector<PieceRows> converted;
  do {
    pieces.clear();
    while (pieces.size() < static_cast<size_t>(settings.workers) * kPiecesPerWorker) {
      auto piece = source.next();
      if (!piece) break;
      pieces.push_back(std::move(*piece));
    }
    converted.clear();
    converted.resize(pieces.size());
    pool.run(static_cast<int64_t>(pieces.size()), [&](int64_t i, int worker) {
      converted[static_cast<size_t>(i)] =
          workers[static_cast<size_t>(worker)].convert(pieces[static_cast<size_t>(i)]);
    });
    for (size_t i = 0; i < pieces.size(); ++i) {
      const PieceRows& piece = converted[i];
      if (pieces[i].file != file) form.reset();
      file = pieces[i].file;
      VIADUCT_CHECK(IoError, !form || !piece.form || *form == *piece.form,
                    "{}: the form {}, but {} is of the form {}: a file has one form",
                    piece.form_place, form_name(*piece.form), form_place, form_name(*form));
      if (!form && piece.form) {
        form = piece.form;
        form_place = piece.form_place;
      }
      if (piece.error) std::rethrow_exception(piece.error);
      if (result.rows == 0 && !piece.rows.empty()) result.first_row = piece.rows.front();
      take_counts(piece, result);
      for (const ChatRow& row : piece.rows) writer.add(row);
    }
    if (progress) progress(source.consumed(), total);
  } while (!pieces.empty());
  check_problems(settings, result);
  check_rows(settings, result);
  result.pictures = writer.pictures();
  writer.finish(result);
  return result;
}

}  // namespace viaduct
