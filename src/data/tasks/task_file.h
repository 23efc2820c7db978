#pragma once
// Files of tasks (JSONL) that a model is evaluated on: questions with a choice of answers, of which
// the model is to give the right one the largest probability, and texts with their continuation.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

/// A line: {"context", "choices", "answer", "task"?} or {"context", "continuation", "task"?}.
struct TaskLine {
  int64_t line = 0;  // its number in the file
  std::string task;
  std::string context;               // may be empty
  std::vector<std::string> choices;  // none: the line has a continuation
  size_t answer = 0;                 // index of the right choice
  std::string continuation;

  bool is_choice() const { return !choices.empty(); }
  /// The texts that are scored: the choices, or the continuation.
  size_t texts() const { return is_choice() ? choices.size() : 1; }
};

struct TaskFile {
  std::string name;  // of the file, for messages
  std::vector<TaskLine> lines;

  /// "FILE line N", for messages.
  std::string where(const TaskLine& line) const;
  /// The tasks in the order of their first lines.
  std::vector<std::string> tasks() const;
};

/// Reads a file that an option or field, `given_by` ("--tasks"), names. A line without "task" is of
/// the task that the file's name gives (FILE of FILE.jsonl); other members of a line are not read,
/// and empty lines are passed over. ConfigError (MissingPath without the file) that names file and
/// line, what was expected and what is there, for the first line that is no such object, and for a
/// file without lines. IoError for one that cannot be read.
TaskFile read_task_file(std::string_view given_by, const std::filesystem::path& file);
/// The same from a text; `name` is that of the file.
TaskFile parse_task_file(std::string_view text, const std::string& name,
                         const std::string& task_of_lines_without);

/// The first `count` lines, each with its right answer, as the beginning of every context: context,
/// `delimiter`, right choice (or context and continuation), an empty line. ConfigError if there are
/// fewer.
std::string few_shot_text(const TaskFile& examples, int64_t count, const std::string& delimiter);

}  // namespace viaduct
