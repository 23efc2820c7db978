#include "number_checks.h"

#include <filesystem>
#include <string>

namespace viaduct::cli {
namespace {

constexpr double kMost = 1e300;
// File systems take names of 255 bytes; unfinished files have a suffix such as ".tmp-1234567".
constexpr size_t kLongestName = 255 - 24;

}  // namespace

const CLI::Validator& positive() {
  static const CLI::Validator check(
      [](std::string& text) {
        double value = 0;
        const bool good = CLI::detail::lexical_cast(text, value) && value > 0 && value < kMost;
        return good ? std::string() : "expected a positive number, found " + text;
      },
      "POSITIVE");
  return check;
}

const CLI::Validator& not_negative() {
  static const CLI::Validator check(
      [](std::string& text) {
        double value = 0;
        const bool good = CLI::detail::lexical_cast(text, value) && value >= 0 && value < kMost;
        return good ? std::string() : "expected a number of at least 0, found " + text;
      },
      "NONNEGATIVE");
  return check;
}

const CLI::Validator& new_path() {
  static const CLI::Validator check(
      [](std::string& text) {
        if (text.empty())
          return std::string("expected a name of what is to be written, found \"\"");
        std::filesystem::path path(text);
        if (!path.has_filename()) path = path.parent_path();
        const size_t bytes = path.filename().string().size();
        return bytes <= kLongestName
                   ? std::string()
                   : "expected a name of at most " + std::to_string(kLongestName) +
                         " bytes, found one of " + std::to_string(bytes);
      },
      "PATH");
  return check;
}

const CLI::Validator& not_empty() {
  static const CLI::Validator check(
      [](std::string& text) {
        return text.empty() ? std::string("expected a value, found \"\"") : std::string();
      },
      "");
  return check;
}

}  // namespace viaduct::cli
