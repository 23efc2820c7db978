#pragma once
// Checks of texts that people read.

#include <algorithm>
#include <cstddef>
#include <regex>
#include <string>

namespace viaduct::test {

/// The first place of `text` where one thing is called many, as "1 rows"; "" if there is none.
inline std::string one_called_many(const std::string& text) {
  static const std::regex pattern(
      "(^|[^0-9.,/-])1 ((data|tensor|context|pipeline|expert|virtual|scored|further|logged|"
      "old|new|other|more|data-parallel) )*"
      "(rows|ranks|steps|layers|blocks|tokens|documents|sequences|samples|files|tensors|threads|"
      "micro-batches|stages|chunks|experts|groups|GPUs|layouts|changes|launches|texts|lines|"
      "conversations|messages|answers|prompts|updates|entries|elements|problems|warnings|rules|"
      "numbers|values|epochs|heads|positions|processes|parameters|settings|questions|tasks)"
      "($|[^a-z/-])");
  std::smatch found;
  if (!std::regex_search(text, found, pattern)) return "";
  const auto begin = std::max<std::ptrdiff_t>(0, found.position(0) - 40);
  return text.substr(static_cast<size_t>(begin), 100);
}

}  // namespace viaduct::test
