#pragma once
// Index arrays as files that are built once and mapped by every rank of every later run, under
// Megatron's names: HASH-GPTDataset-train-document_index.npy and so on, where HASH is the MD5 of a
// description of the data and the order.
//
// One process builds them while the others wait at a lock. Each file appears whole or not at all.
// The last is HASH-…-checksums.json (not part of Megatron's format): a hash of the arrays' inputs,
// and the arrays' checksums. Arrays without it, or that do not match it, are rebuilt.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "data/index_array.h"

namespace viaduct {

/// Arrays that belong together.
struct IndexCacheEntry {
  std::filesystem::path folder;
  std::string description;
  std::string kind;                ///< "GPTDataset-train"
  std::vector<std::string> names;  ///< "document_index", …
  std::vector<IndexShape> shapes;  ///< the shapes they must have; empty: known when they are built
  uint64_t source = 0;             ///< hash of the inputs they are built from

  /// FOLDER/HASH-KIND-SUFFIX.
  std::filesystem::path file(std::string_view suffix) const;
  std::filesystem::path array_file(size_t i) const { return file(names[i] + ".npy"); }
};

/// Builds the arrays, in the order of their names.
using IndexBuild = FunctionRef<void(IndexSink& sink)>;

std::vector<IndexArray> build_in_memory(IndexBuild build);

/// The arrays, mapped. Existing files are compared with their checksums completely; a damaged,
/// foreign or outdated cache gives a warning and is rebuilt. IoError if it cannot be written.
std::vector<IndexArray> load_or_build(const IndexCacheEntry& entry, IndexBuild build);

/// Builds the files if they are missing or have wrong sizes; maps nothing.
void ensure_built(const IndexCacheEntry& entry, IndexBuild build);

/// The files without verification, except that their shapes must match each other. IoError naming a
/// missing file.
std::vector<IndexArray> load_trusted(const IndexCacheEntry& entry);

/// Whether files can be created in `folder`, which is created if missing.
bool is_writable_folder(const std::filesystem::path& folder);

}  // namespace viaduct
