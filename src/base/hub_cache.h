#pragma once
// Models that Hugging Face's tools have downloaded, by their names on the Hub: the snapshots in the
// local cache ("How-to: Manage your cache" of huggingface_hub). A snapshot is a folder of symbolic
// links to files that have no names. Nothing is downloaded.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace viaduct {

/// "org/name" or "name", "@revision" (a branch, a tag or a commit; main without it), and in
/// "org/name/FILE.gguf" a file.
struct HubName {
  std::string repository, revision = "main", file = {};

  /// "hf download org/name --revision v1.0".
  std::string download_command() const;
};

/// Nothing for what cannot be such a name: an absolute path, "./x", "a/b/c", "a..b".
std::optional<HubName> parse_hub_name(std::string_view text);

/// The folder of the cache: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub,
/// XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub: the first that the environment gives.
std::optional<std::filesystem::path> hub_cache();

/// Where the model is that the user gave: `given`, if there is such a file or folder; else the
/// snapshot of that name in the cache, the one that refs/REVISION names. Nothing if there is
/// neither.
std::optional<std::filesystem::path> find_model(const std::filesystem::path& given);

/// The same; MissingPath (base/given_path.h, with its `where` and `expected`) if there is neither,
/// with the command that downloads what may be a name of the Hub.
std::filesystem::path model_path(std::string_view where, const std::filesystem::path& given,
                                 std::string_view expected);

/// "org/name" for a snapshot of the cache and what lies in it, "" for other paths.
std::string hub_repository(const std::filesystem::path& path);

/// The end of a message about a file that a snapshot lacks: how to complete it; "" for other paths.
std::string complete_snapshot_text(const std::filesystem::path& path);

}  // namespace viaduct
