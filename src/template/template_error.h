#pragma once
// Errors of templates: inside of the room without a place, outside with one.

#include <string>
#include <utility>

#include "base/error.h"

namespace viaduct {

/// A template that cannot be parsed or rendered. The message has the template's name, line and
/// column.
class TemplateError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// What went wrong, before the interpreter adds the place.
class TemplateFault : public Error {
 public:
  using Error::Error;
};

template <class... Args>
[[noreturn]] void template_fault(fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateFault(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace viaduct
