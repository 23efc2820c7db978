#include "config/value.h"

#include <fmt/core.h>

#include <algorithm>

#include "config/convert.h"

namespace viaduct {

std::string ValueSource::text() const {
  if (!origin) return "";
  return line > 0 ? fmt::format("{}:{}", *origin, line) : *origin;
}

Value Value::of_scalar(std::string text, bool quoted) {
  Value value;
  value.kind = Kind::scalar;
  value.scalar = std::move(text);
  value.quoted = quoted;
  return value;
}

Value Value::of_list(std::vector<Value> items) {
  Value value;
  value.kind = Kind::list;
  value.items = std::move(items);
  return value;
}

bool Value::is_plain(std::string_view text) const {
  return kind == Kind::scalar && !quoted && scalar == text;
}

const Value* Value::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name == key) return &value;
  }
  return nullptr;
}

void Value::set(std::string_view key, Value value) {
  kind = Kind::map;
  for (auto& [name, old] : entries) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  entries.emplace_back(std::string(key), std::move(value));
}

bool same_value(const Value& a, const Value& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Value::Kind::null:
      return true;
    case Value::Kind::scalar: {
      bool x = false, y = false;
      if (read_value(a, x) && read_value(b, y)) return x == y;
      double p = 0, q = 0;
      if (read_value(a, p) && read_value(b, q)) return p == q;
      return a.scalar == b.scalar;
    }
    case Value::Kind::list:
      return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), same_value);
    case Value::Kind::map:
      return a.entries.size() == b.entries.size() &&
             std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
               const Value* other = b.find(entry.first);
               return other && same_value(entry.second, *other);
             });
  }
  return false;
}

namespace {

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

// Letters, digits and the punctuation of paths, numbers and names never need quotes; any other text
// gets them.
bool is_safe_plain(std::string_view text) {
  const auto safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '/' || c == '-' || c == '+';
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), safe) &&
         text.substr(0, 3) != "---" && text.substr(0, 3) != "..." && text != "-";
}

bool is_null_word(std::string_view text) {
  return text == "null" || text == "Null" || text == "NULL" || text == "~";
}

std::string scalar_text(std::string_view text, bool quoted) {
  return quoted || !is_safe_plain(text) || is_null_word(text) ? quote(text) : std::string(text);
}

}  // namespace

std::string to_flow_yaml(const Value& value) {
  std::string out;
  switch (value.kind) {
    case Value::Kind::null:
      return "null";
    case Value::Kind::scalar:
      return scalar_text(value.scalar, value.quoted);
    case Value::Kind::list:
      for (const Value& item : value.items) out += (out.empty() ? "" : ", ") + to_flow_yaml(item);
      return "[" + out + "]";
    case Value::Kind::map:
      for (const auto& [key, entry] : value.entries) {
        out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", scalar_text(key, false),
                           to_flow_yaml(entry));
      }
      return "{" + out + "}";
  }
  return out;
}

}  // namespace viaduct
