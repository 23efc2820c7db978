#include "data/index_store.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"

namespace viaduct {

std::string index_description(const nlohmann::ordered_json& facts) {
  return facts.dump(4, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

IndexCacheEntry index_files(const IndexStorage& storage, std::string_view kind,
                            const std::string& prefix, Split split, std::string description,
                            std::vector<std::string> names) {
  IndexCacheEntry entry;
  entry.folder = storage.path_to_cache
                     ? std::filesystem::path(*storage.path_to_cache)
                     : std::filesystem::path(prefix) / "cache" / fmt::format("{}_indices", kind);
  entry.description = std::move(description);
  entry.kind = fmt::format("{}-{}", kind, split_name(split));
  entry.names = std::move(names);
  return entry;
}

std::vector<IndexArray> open_index(const std::optional<IndexCacheEntry>& files,
                                   const IndexStorage& storage, std::string_view subject,
                                   IndexBuild build) {
  if (!files) return build_in_memory(build);
  if (storage.fast_cache_load) return load_trusted(*files);
  try {
    return load_or_build(*files, build);
  } catch (const IoError& error) {
    if (storage.path_to_cache || is_writable_folder(files->folder)) throw;
    log_warning(
        "{}; every rank keeps the order of {} in its own memory (dataset.path_to_cache can name "
        "another folder for it)",
        error.what(), subject);
    return build_in_memory(build);
  }
}

void fail_damaged_order(const std::string& prefix, Split split, const std::string& sample,
                        std::string_view what, int64_t found, int64_t end) {
  fail<IoError>(
      "dataset {}: the cached order of its {} split has the {} {} for {}, expected 0 to {}: it is "
      "damaged, or belongs to other data; remove it",
      prefix, split_name(split), what, found, sample, end - 1);
}

}  // namespace viaduct
