#pragma once
// Input of the structure tests: the files of the repository, and their code without comments and
// string literals.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "support/paths.h"

namespace viaduct::test {

/// All files below source_folder()/`folder` whose names end in one of `endings` (all files if there
/// are none), sorted; none if the folder does not exist.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                               const std::vector<std::string>& endings = {});

/// The path relative to source_folder().
std::string shown(const std::filesystem::path& path);

/// `code` with comments and the contents of string and character literals blanked; lines stay where
/// they are.
std::string without_comments_and_literals(std::string_view code);

/// The names in the include directives of `code`, with their delimiters: `"base/error.h"`,
/// `<vector>`.
std::vector<std::string> included_names(std::string_view code);

/// True if `word` occurs in `text` with no identifier character right before it.
bool contains_word(std::string_view text, std::string_view word);

}  // namespace viaduct::test
