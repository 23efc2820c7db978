#include "config/override_value.h"

#include <string_view>

#include "base/error.h"

namespace viaduct {
namespace {

/// Whether `type`, for instance "string or list of string or null", has `alternative` among its
/// alternatives, whole or as its first words.
bool takes(const std::string& type, const std::string& alternative) {
  const std::string padded = "or " + type + " or ";
  return padded.find("or " + alternative + " ") != std::string::npos;
}

bool is_null_text(const std::string& text) {
  return text.empty() || text == "null" || text == "Null" || text == "NULL" || text == "~" ||
         text == "None";
}

/// Whether all of `text` is one quoted YAML string: the quote that opens it is closed by the last
/// character and by none before.
bool is_quoted_whole(const std::string& text) {
  if (text.size() < 2 || (text.front() != '"' && text.front() != '\'')) return false;
  const char quote = text.front();
  size_t i = 1;
  while (i < text.size()) {
    if (quote == '"' && text[i] == '\\') {
      i += 2;
    } else if (text[i] != quote) {
      ++i;
    } else if (quote == '\'' && i + 1 < text.size() && text[i + 1] == quote) {
      i += 2;
    } else {
      return i + 1 == text.size();
    }
  }
  return false;
}

/// The first character outside of quotes that YAML may take for the beginning of a comment (#), an
/// anchor (&), an alias (*) or a tag (!), 0 if there is none.
char vanishing(const std::string& text) {
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool begins = i == 0 || std::string_view(" \t[{,").find(text[i - 1]) != std::string::npos;
    if (quote == '"' && c == '\\') {
      ++i;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (begins && (c == '"' || c == '\'')) {
      quote = c;
    } else if (begins && (c == '#' || c == '&' || c == '*' || c == '!')) {
      return c;
    }
  }
  return 0;
}

Value flow_yaml(const std::string& text, const std::string& origin) {
  VIADUCT_CHECK(ConfigError, text.find_first_of("\n\r") == std::string::npos,
                "{}: a line break, which YAML would turn into a space; write \"\\n\" inside double "
                "quotes",
                origin);
  if (const char c = vanishing(text); c != 0)
    fail<ConfigError>(
        "{}: '{}' begins a comment, an anchor or a tag here, which would be lost; put "
        "the text in quotes",
        origin, c);
  return parse_yaml(text, origin);
}

}  // namespace

Value value_of_override(const Field* field, const std::string& text, const std::string& origin) {
  Value value;
  if (field == nullptr || !takes(field->type, "string") ||
      (takes(field->type, "list of") && !text.empty() && text.front() == '[') ||
      is_quoted_whole(text)) {
    value = flow_yaml(text, origin);
  } else if (!takes(field->type, "null") || !is_null_text(text)) {
    value = Value::of_scalar(text);
  }
  value.source = {std::make_shared<const std::string>(origin), 0};
  return value;
}

}  // namespace viaduct
