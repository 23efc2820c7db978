#pragma once
// Where the order of one data set is kept, of whatever kind: built once and mapped from files by
// all readers (index_cache.h), or in the memory of each rank.

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/index_array.h"
#include "data/index_cache.h"
#include "data/split.h"

namespace viaduct {

/// Fields of DatasetConfig.
struct IndexStorage {
  std::optional<std::string> path_to_cache;
  bool fast_cache_load = false;
  bool defer_npy_index_mmap = false;
};

/// The text of everything that determines an order, as Python's json.dumps(…, indent=4) writes it:
/// its MD5 names the files.
std::string index_description(const nlohmann::ordered_json& facts);

/// The files of the order of a split of a data set: in `path_to_cache`, or in
/// PREFIX/cache/KIND_indices. `kind`: the class that reads them ("GPTDataset"). Without shapes and
/// source.
IndexCacheEntry index_files(const IndexStorage& storage, std::string_view kind,
                            const std::string& prefix, Split split, std::string description,
                            std::vector<std::string> names);

/// The arrays of an order: without `files` built in memory; mapped from them otherwise, as they are
/// with fast_cache_load, else checked and built where they are missing (errors as in
/// index_cache.h). Files that cannot be written beside the data give a warning that names `subject`
/// (the data set), and the arrays are built in memory; in `path_to_cache` that is an IoError.
std::vector<IndexArray> open_index(const std::optional<IndexCacheEntry>& files,
                                   const IndexStorage& storage, std::string_view subject,
                                   IndexBuild build);

/// IoError: for `sample` ("row 3") the order of a split has the number `found` as `what`
/// ("position") of the data, where only 0 to `end` − 1 are possible.
[[noreturn]] void fail_damaged_order(const std::string& prefix, Split split,
                                     const std::string& sample, std::string_view what,
                                     int64_t found, int64_t end);

}  // namespace viaduct
