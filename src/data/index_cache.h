#pragma once
// Index arrays as files that are made once and mapped by every rank of every later run, under the
// names that Megatron gives them: HASH-GPTDataset-train-document_index.npy and so on, where HASH is
// the MD5 of a description of what is read how.
//
// One process makes them while the others wait at a lock. Each file appears whole or not at all,
// and last comes HASH-…-checksums.json, which Megatron does not know: what the arrays were made
// from, and their checksums. Arrays without it, or that are not as it says, are made again.

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
  std::vector<IndexShape> shapes;  ///< what they must have
  uint64_t source = 0;             ///< hash of what they are made from

  /// FOLDER/HASH-KIND-SUFFIX.
  std::filesystem::path file(std::string_view suffix) const;
  std::filesystem::path array_file(size_t i) const { return file(names[i] + ".npy"); }
};

/// Makes the arrays, in the order of their names.
using IndexBuild = FunctionRef<void(IndexSink& sink)>;

std::vector<IndexArray> build_in_memory(IndexBuild build);

/// The arrays, mapped. Every byte of files that are there is compared with its checksum; a damaged,
/// foreign or outdated cache is a warning, and is made again. IoError if it cannot be written.
std::vector<IndexArray> load_or_build(const IndexCacheEntry& entry, IndexBuild build);

/// Makes the files if they are not there with the right sizes, and maps nothing.
void ensure_built(const IndexCacheEntry& entry, IndexBuild build);

/// The files as they are: their shapes must fit each other, and nothing else is looked at. IoError
/// naming the file that is missing.
std::vector<IndexArray> load_trusted(const IndexCacheEntry& entry);

/// Whether files can be made in `folder`, which is made if it is missing.
bool is_writable_folder(const std::filesystem::path& folder);

}  // namespace viaduct
