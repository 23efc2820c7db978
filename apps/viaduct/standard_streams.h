#pragma once
// Standard input, output and error in any state: closed, full, or a pipe without a reader. A
// command fails if its results cannot be written; progress and log messages may be lost.

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace viaduct::cli {

/// Call at program start, before any file is opened: opens substitutes for closed streams, so that
/// no file gets their numbers, and makes a write to a broken pipe or beyond the file size limit
/// return an error instead of ending the process (SIGPIPE, SIGXFSZ).
void prepare_standard_streams();

/// Call at the end: writes buffered output, and turns status 0 into 1, with an error message, if
/// output was lost.
int finish_standard_output(int status);

/// Writes `text` to standard output at once; returns the reason if that fails, else "". For a
/// command whose result is written elsewhere.
std::string try_print(std::string_view text);
/// Whether a write to standard error failed.
bool standard_error_failed();
/// Prints `text`, which its reader sees at once. IoError if it or the output before it could not be
/// written: a command that prints for a long time then stops if its reader is gone.
void print_now(std::string_view text);

/// Writes a message to standard error; errors are ignored.
void say_text(std::string_view text);
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_text(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace viaduct::cli
