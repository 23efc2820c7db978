#include "report/session_log.h"

#include <algorithm>
#include <system_error>

#include "base/file.h"
#include "base/json.h"
#include "base/json_reader.h"

namespace viaduct {
namespace {

constexpr const char* kSessionFile = "sessions.jsonl";
constexpr size_t kMostSessionBytes = size_t{1} << 24;

}  // namespace

std::vector<SessionStart> read_sessions(const std::filesystem::path& save) {
  const auto path = save / kSessionFile;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  const std::string text = read_file(path, kMostSessionBytes);
  std::vector<SessionStart> sessions;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const auto line =
        try_parse_json<nlohmann::ordered_json>(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    if (!line || !line->is_object() || !line->contains("step") || !line->contains("changed"))
      continue;
    const auto &step = (*line)["step"], &changed = (*line)["changed"];
    if (!step.is_number_integer() || !changed.is_array()) continue;
    SessionStart session{step.get<int64_t>(), {}};
    for (const nlohmann::ordered_json& entry : changed)
      if (entry.is_string()) session.changed.push_back(entry.get<std::string>());
    sessions.push_back(std::move(session));
  }
  std::stable_sort(sessions.begin(), sessions.end(),
                   [](const auto& a, const auto& b) { return a.step < b.step; });
  return sessions;
}

void add_session(const std::filesystem::path& save, const SessionStart& session) {
  const auto path = save / kSessionFile;
  std::error_code ignored;
  if (session.step == 0) {
    std::filesystem::remove(path, ignored);
    return;
  }
  std::vector<SessionStart> sessions = read_sessions(save);
  std::erase_if(sessions, [&](const SessionStart& other) { return other.step > session.step; });
  sessions.push_back(session);
  std::string text;
  for (const SessionStart& s : sessions)
    text += nlohmann::ordered_json{{"step", s.step}, {"changed", s.changed}}.dump() + "\n";
  write_file_atomically(path, text);
}

}  // namespace viaduct
