#pragma once
// Log messages on standard error. Libraries log progress and warnings; they never print results.

#include <fmt/core.h>

#include <string_view>

namespace viaduct {

enum class LogLevel { info, warning, error };

/// Writes "viaduct: text" ("viaduct: warning: text", "viaduct: error: text") as one line on stderr;
/// thread-safe.
void log_line(LogLevel level, std::string_view text);

template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace viaduct
