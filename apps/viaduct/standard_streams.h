#pragma once
// Standard input, output and error as they may be: closed, full, or a pipe that nobody reads any
// more. Results that cannot be written make a command fail; what is for people only does not.

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace viaduct::cli {

/// At the start of the program, before any file is opened: puts something in place of streams that
/// are closed, so that no file gets their numbers, and lets a write into a broken pipe or beyond
/// the file size limit fail instead of ending the process (SIGPIPE, SIGXFSZ).
void prepare_standard_streams();

/// At its end: writes out what is left, and turns status 0 into 1, with an error, if standard
/// output did not take all that was printed.
int finish_standard_output(int status);

/// Writes `text` to standard output at once; the reason if that cannot be done, else "". For a
/// command whose result is elsewhere.
std::string try_print(std::string_view text);
/// Whether something could not be written to standard error.
bool standard_error_failed();
/// IoError unless standard output takes what was printed so far: a command that prints for a long
/// time stops when nobody listens.
void flush_standard_output();

/// Text for people on standard error; nothing happens if that cannot be written.
void say_text(std::string_view text);
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_text(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace viaduct::cli
