#include "number_checks.h"

namespace viaduct::cli {
namespace {

constexpr double kMost = 1e300;

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

}  // namespace viaduct::cli
