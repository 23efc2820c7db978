#include "base/hub_cache.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/given_path.h"

namespace viaduct {
namespace {

constexpr const char *kSnapshots = "snapshots", *kRefs = "refs";
constexpr std::string_view kModels = "models--", kMain = "main";

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Letters, digits, `_`, `-` and `.`, as huggingface_hub's validate_repo_id has them.
bool is_part(std::string_view part) {
  return !part.empty() && part.size() <= 96 && is_word(part.front()) && is_word(part.back()) &&
         std::ranges::all_of(part, [](char c) { return is_word(c) || c == '-' || c == '.'; }) &&
         part.find("--") == std::string_view::npos && part.find("..") == std::string_view::npos;
}

/// "refs/pr/1" is a revision as well; none leaves its folder.
bool is_revision(std::string_view text) {
  for (;;) {
    const size_t end = text.find('/');
    const std::string_view part = text.substr(0, end);
    const bool plain = std::ranges::all_of(
        part, [](char c) { return is_word(c) || c == '-' || c == '.' || c == '+'; });
    if (part.empty() || !plain || part == "." || part == "..") return false;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

std::optional<std::filesystem::path> given_by(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  const std::string_view text = value;
  const char* home = std::getenv("HOME");
  if (text.starts_with("~/") && home != nullptr)
    return std::filesystem::path(home) / text.substr(2);
  return std::filesystem::path(text);
}

bool is_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::string names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    names.push_back(at->path().filename().string());
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

/// The commit that a branch or tag is at; "" if the cache does not know it.
std::string commit_of(const std::filesystem::path& repository, const std::string& revision) {
  const std::filesystem::path file = repository / kRefs / revision;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return "";
  constexpr size_t kMostBytes = 256;
  std::string commit = read_file(file, kMostBytes);
  while (!commit.empty() && std::isspace(static_cast<unsigned char>(commit.back())) != 0)
    commit.pop_back();
  VIADUCT_CHECK(IoError, is_part(commit), "{}: names no commit", file.string());
  return commit;
}

/// The path of a name in the cache, or why there is none.
struct Search {
  std::filesystem::path found;
  std::string problem = {};
  bool knows_repository = false;
};

Search search_cache(const HubName& name) {
  const auto cache = hub_cache();
  if (!cache) return {{}, "there is no cache (HF_HUB_CACHE, HF_HOME and HOME are not set)"};
  std::string folder = std::string(kModels) + name.repository;
  if (const size_t slash = folder.find('/'); slash != std::string::npos)
    folder.replace(slash, 1, "--");
  const std::filesystem::path repository = *cache / folder, snapshots = repository / kSnapshots;
  if (!is_folder(snapshots)) return {{}, "it is not in the cache " + cache->string()};
  std::string commit = name.revision;
  if (!is_part(commit) || !is_folder(snapshots / commit)) {
    commit = commit_of(repository, name.revision);
    if (commit.empty()) {
      return {{},
              fmt::format("{} has no revision {} (snapshots there: {}; {}@SNAPSHOT names one)",
                          repository.string(), name.revision, names_in(snapshots), name.repository),
              true};
    }
  }
  const std::filesystem::path snapshot = snapshots / commit;
  if (!is_folder(snapshot)) {
    return {{},
            fmt::format("{} is at {}, which is not there (snapshots there: {})",
                        (repository / kRefs / name.revision).string(), commit, names_in(snapshots)),
            true};
  }
  if (name.file.empty()) return {snapshot, "", true};
  if (is_there(snapshot / name.file)) return {snapshot / name.file, "", true};
  return {{}, fmt::format("{} has no {}", snapshot.string(), name.file), true};
}

}  // namespace

std::string HubName::download_command() const {
  return "hf download " + repository + (file.empty() ? "" : " " + file) +
         (revision == kMain ? "" : " --revision " + revision);
}

std::optional<HubName> parse_hub_name(std::string_view text) {
  HubName name;
  while (text.ends_with('/')) text.remove_suffix(1);
  const size_t second = text.find('/', text.find('/') + 1);
  if (second != std::string_view::npos && text.find('@') > second && text.ends_with(".gguf")) {
    name.file = text.substr(second + 1);
    if (!is_revision(name.file)) return std::nullopt;
    text = text.substr(0, second);
  }
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    name.revision = text.substr(at + 1);
    if (!is_revision(name.revision)) return std::nullopt;
    text = text.substr(0, at);
  }
  name.repository = text;
  const size_t slash = text.find('/');
  if (slash != std::string_view::npos && !is_part(text.substr(0, slash))) return std::nullopt;
  if (!is_part(text.substr(slash == std::string_view::npos ? 0 : slash + 1))) return std::nullopt;
  return name;
}

std::optional<std::filesystem::path> hub_cache() {
  for (const char* whole : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const auto path = given_by(whole)) return path;
  if (const auto home = given_by("HF_HOME")) return *home / "hub";
  if (const auto caches = given_by("XDG_CACHE_HOME")) return *caches / "huggingface" / "hub";
  if (const auto home = given_by("HOME")) return *home / ".cache" / "huggingface" / "hub";
  return std::nullopt;
}

std::optional<std::filesystem::path> find_model(const std::filesystem::path& given) {
  if (is_there(given)) return given;
  const auto name = parse_hub_name(given.string());
  if (!name) return std::nullopt;
  Search search = search_cache(*name);
  return search.found.empty() ? std::nullopt : std::optional(std::move(search.found));
}

std::filesystem::path model_path(std::string_view where, const std::filesystem::path& given,
                                 std::string_view expected) {
  if (is_there(given)) return given;
  const auto name = parse_hub_name(given.string());
  Search search = name ? search_cache(*name) : Search{};
  if (!search.found.empty()) return search.found;
  // A name without an organization, and one whose folder is here, is a path with a mistake.
  const std::filesystem::path folder = given.parent_path();
  if (!name || (!search.knows_repository && (folder.empty() || is_folder(folder)))) {
    check_given_path(where, given, expected);
    return given;  // it cannot be examined: whoever opens it says why
  }
  fail<MissingPath>(
      "{}{}: no such file or folder; expected {}, or a name of the Hugging Face Hub in the local "
      "cache: {}; to download it: {}",
      where, given.string(), expected, search.problem, name->download_command());
}

std::string hub_repository(const std::filesystem::path& path) {
  std::string before;
  for (const std::filesystem::path& part : path) {
    if (part == kSnapshots && before.starts_with(kModels)) {
      std::string name = before.substr(kModels.size());
      if (const size_t at = name.find("--"); at != std::string::npos) name.replace(at, 2, "/");
      return name;
    }
    before = part.string();
  }
  return "";
}

std::string complete_snapshot_text(const std::filesystem::path& path) {
  const std::string name = hub_repository(path);
  return name.empty() ? "" : "; to complete the download: " + HubName{name}.download_command();
}

}  // namespace viaduct
