#pragma once
// Converts chat files to a dataset with a mask, with a pool of workers. The output does not depend
// on their number.

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "conversation/answers.h"
#include "conversation/chat_encoder.h"
#include "conversation/control_tokens.h"
#include "conversation/image_places.h"
#include "data/token_type.h"

namespace viaduct {

/// What becomes of a row that is longer than allowed.
/// `truncate_start` leaves out the first turns, the system's message excepted, and if that is not
/// enough the beginning of the last question.
enum class Overlong { refuse, drop, truncate_end, truncate_start };

/// The names of --overlong, in the order of Overlong.
const std::vector<std::string>& overlong_names();

struct ChatFilesSettings {
  std::vector<std::filesystem::path> inputs;  ///< "-" (once) is standard input
  std::filesystem::path output;               ///< prefix of .bin, .idx, .mask.bin and .mask.idx
  const Tokenizer* tokenizer = nullptr;
  const ChatRenderer* renderer = nullptr;  ///< null: only forms without a template can be read
  const ImagePlaces* images = nullptr;     ///< null: lines with pictures are refused
  TemplateClock clock;                     ///< what templates with a date show
  std::optional<TrainOn> train_on;         ///< nothing: as the form of each file suggests
  ConversationReading reading;
  std::optional<int64_t> max_length;  ///< tokens of a row
  Overlong overlong = Overlong::refuse;
  bool skip_invalid = false;            ///< leave invalid lines out instead of refusing all
  bool control_tokens_as_text = false;  ///< encode those in messages as plain text
  /// For a model with an encoder: prompts and completions are texts of their own.
  bool completions_apart = false;
  TokenType type = TokenType::int32;
  int workers = 1;
};

/// Lines of one kind of problem.
struct ProblemCount {
  int64_t lines = 0;
  std::string first;  ///< "FILE:7: what is wrong"
};

struct ChatFilesResult {
  int64_t conversations = 0;  ///< valid ones
  int64_t rows = 0, tokens = 0, scored = 0;
  int64_t own_rows = 0;               ///< of one answer each (ConversationTexts::own)
  int64_t images = 0;                 ///< places of pictures in the rows
  int64_t pictures = 0;               ///< different ones of them
  int64_t bytes = 0;                  ///< of text, unpacked
  int64_t overlong = 0, longest = 0;  ///< before rows are cut or dropped
  int64_t longest_written = 0;
  int64_t unfit = 0;    ///< of those: dropped, since an answer and its question are too long
  int64_t dropped = 0;  ///< rows without a scored token
  /// Learned completions of texts, and answers of messages, that do not end with a special token;
  /// white space behind one is not looked at.
  int64_t open_ends = 0, open_answers = 0;
  int64_t unknown_bytes = 0;
  std::array<ProblemCount, kConversationProblems> problems;
  ProblemCount hidden_tools;    ///< valid lines whose text does not show all tools or tool calls
  ProblemCount hidden_context;  ///< whose text does not show all thoughts or documents
  ProblemCount encoded_twice;   ///< whose text has arguments of calls as JSON inside of a text
  ProblemCount joined_parts;    ///< whose lists of text parts were made texts for the template
  /// Valid lines with messages that say that they are learned, and are not by what is learned.
  ProblemCount passed_over;
  ControlTokenCounts control_tokens;
  std::vector<std::string> train_on;  ///< what was learned, by name
  ChatRow first_row;

  int64_t invalid() const;
};

/// Writes the dataset, its record (data/token_record.h), and which pictures its rows have
/// (image/image_index.h), if there are any; their paths begin at the folder of their chat file, and
/// each is read to the end. `progress(done, total)` is called
/// periodically on the calling thread, in stored bytes of input (total 0: unknown). Memory is
/// bounded by some megabytes a worker, or by the longest conversations. Nothing is left when it
/// throws: IoError with the counts and first lines of invalid conversations unless they are
/// skipped, with the count and the longest of rows that are too long where those are refused, where
/// a line has another form than those before it in its file, and where no row is left.
ChatFilesResult convert_chat_files(
    const ChatFilesSettings& settings,
    const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace viaduct
