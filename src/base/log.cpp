#include "base/log.h"

#include <cstdio>

namespace viaduct {

void log_line(LogLevel level, std::string_view text) {
  const char* label = level == LogLevel::warning ? "warning: "
                      : level == LogLevel::error ? "error: "
                                                 : "";
  std::string line = fmt::format("viaduct: {}{}\n", label, text);
  std::fwrite(line.data(), 1, line.size(),
              stderr);  // one call, so that lines of different threads do not mix
}

}  // namespace viaduct
