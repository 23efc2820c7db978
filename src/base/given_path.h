#pragma once
// Paths that the user gave, on the command line or in the configuration: one that does not exist is
// wrong input, not a failed run.

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"

namespace viaduct {

/// A path that the user gave does not exist: exit status 2. Every process of a run reports it,
/// since the folders of one machine may lack what those of another have.
class MissingPath : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// MissingPath unless there is a file or folder of this name. `where`: the option or field, with a
/// colon and a blank, or ""; `expected`: what it should have been, "a Hugging Face folder".
void check_given_path(std::string_view where, const std::filesystem::path& path,
                      std::string_view expected);

/// What a folder holds, for messages: "; it is a folder with 12 files, for example a.jsonl"; "; it
/// is an empty folder"; "" for anything else.
std::string folder_text(const std::filesystem::path& path);

/// "; nearest: FOLDER/NAME" for the entry of the same folder with the most similar name, or ";
/// there is no folder FOLDER"; "" if nothing is similar.
std::string nearest_path_text(const std::filesystem::path& path);

}  // namespace viaduct
