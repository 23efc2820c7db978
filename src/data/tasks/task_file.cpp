#include "data/tasks/task_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/given_path.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/user_input.h"
#include "data/text_check.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;

std::string shown(const Json& value) {
  constexpr size_t kMost = 60;
  return shown_name(value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, kMost));
}

const Json* member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

std::string found_text(const Json* value) {
  return value == nullptr ? "it is missing" : "found " + shown(*value);
}

std::string text_of(const Json& object, const char* name, const std::string& where) {
  const Json* value = member(object, name);
  VIADUCT_CHECK(ConfigError, value != nullptr && value->is_string(),
                "{}: \"{}\": expected a text, {}", where, name, found_text(value));
  return value->get<std::string>();
}

std::vector<std::string> choices_of(const Json& object, const std::string& where) {
  const Json& list = object.at("choices");
  VIADUCT_CHECK(ConfigError, list.is_array() && !list.empty(),
                "{}: \"choices\": expected a list of texts, found {}", where, shown(list));
  std::vector<std::string> choices;
  for (const Json& choice : list) {
    VIADUCT_CHECK(ConfigError, choice.is_string() && !choice.get_ref<const std::string&>().empty(),
                  "{}: \"choices\": choice {}: expected a text that is not empty, found {}", where,
                  choices.size(), shown(choice));
    choices.push_back(choice.get<std::string>());
  }
  return choices;
}

Json document_of(std::string_view text, const std::string& where) {
  return read_user_input([&] { return parse_json<Json>(text, where); });
}

TaskLine parse_line(std::string_view text, const std::string& where, const std::string& task) {
  const Json object = document_of(text, where);
  VIADUCT_CHECK(ConfigError, object.is_object(),
                "{}: expected an object with \"context\" and \"choices\" or \"continuation\", "
                "found {}",
                where, shown(object));
  TaskLine line;
  line.task = member(object, "task") == nullptr ? task : text_of(object, "task", where);
  VIADUCT_CHECK(ConfigError, !line.task.empty(),
                "{}: \"task\": expected a name, found an empty text", where);
  line.context = text_of(object, "context", where);
  const bool chooses = member(object, "choices") != nullptr;
  VIADUCT_CHECK(ConfigError, chooses != (member(object, "continuation") != nullptr),
                "{}: expected either \"choices\" and \"answer\" or \"continuation\", found {}",
                where, chooses ? "both" : "neither");
  if (!chooses) {
    line.continuation = text_of(object, "continuation", where);
    VIADUCT_CHECK(ConfigError, !line.continuation.empty(),
                  "{}: \"continuation\": expected a text that is not empty", where);
    return line;
  }
  line.choices = choices_of(object, where);
  const Json* answer = member(object, "answer");
  const std::optional<int64_t> index = answer == nullptr ? std::nullopt : json_count(*answer);
  VIADUCT_CHECK(ConfigError, index && *index < static_cast<int64_t>(line.choices.size()),
                "{}: \"answer\": expected the index of the right choice, 0 to {}, {}", where,
                line.choices.size() - 1, found_text(answer));
  line.answer = static_cast<size_t>(*index);
  return line;
}

std::string where_of(const std::string& file, int64_t line) {
  return fmt::format("{} line {}", file, line);
}

}  // namespace

std::string TaskFile::where(const TaskLine& line) const {
  return where_of(name, line.line);
}

std::vector<std::string> TaskFile::tasks() const {
  std::vector<std::string> names;
  for (const TaskLine& line : lines) {
    if (std::find(names.begin(), names.end(), line.task) == names.end()) names.push_back(line.task);
  }
  return names;
}

TaskFile parse_task_file(std::string_view text, const std::string& name,
                         const std::string& task_of_lines_without) {
  TaskFile file{name, {}};
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    file.lines.push_back(parse_line(line, where_of(name, number), task_of_lines_without));
    file.lines.back().line = number;
  }
  VIADUCT_CHECK(ConfigError, !file.lines.empty(), "{}: has no line; expected a JSON object a line",
                name);
  return file;
}

TaskFile read_task_file(std::string_view given_by, const std::filesystem::path& file) {
  const std::string where = std::string(given_by) + " ";
  check_given_path(where, file, "a file of tasks (JSONL)");
  std::error_code error;
  VIADUCT_CHECK(ConfigError, !std::filesystem::is_directory(file, error),
                "{}{}: is a folder, expected a file of tasks (JSONL)", where, file.string());
  const std::string text = read_file(file);
  read_user_input([&] { check_file_kind(file.string(), text, true); });
  return parse_task_file(text, file.string(), file.stem().string());
}

std::string few_shot_text(const TaskFile& examples, int64_t count, const std::string& delimiter) {
  const auto there = static_cast<int64_t>(examples.lines.size());
  VIADUCT_CHECK(ConfigError, count <= there, "--few-shot {}: {} has {} examples", count,
                examples.name, there);
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    const TaskLine& line = examples.lines[static_cast<size_t>(i)];
    text += line.context;
    text += line.is_choice() ? delimiter + line.choices[line.answer] : line.continuation;
    text += "\n\n";
  }
  return text;
}

}  // namespace viaduct
