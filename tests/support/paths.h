#pragma once
// Paths of this build and its checkout. Functions, so that only one source is compiled with
// absolute paths and a compiler cache serves checkouts in different folders.

#include <filesystem>
#include <string>

namespace viaduct::test {

/// The folder of the repository that was built.
std::filesystem::path source_folder();

/// tests/data/NAME: reference data that is part of the repository.
std::filesystem::path test_data(const std::filesystem::path& name);

/// The program `viaduct` of this build.
std::string viaduct_binary();

}  // namespace viaduct::test
