// The commands in the pages have the options that they are given there.

#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "support/command.h"

namespace viaduct {
namespace {

/// `viaduct data chat --help`; "" for words that are no command.
const std::string& help_of(const std::string& command) {
  static std::map<std::string, std::string> known;
  const auto [at, is_new] = known.emplace(command, "");
  if (is_new) {
    const auto result = test::run_viaduct(command + " --help");
    if (result.status == 0) at->second = result.out;
  }
  return at->second;
}

bool has_option(const std::string& help, const std::string& option) {
  for (size_t at = help.find(option); at != help.npos; at = help.find(option, at + 1)) {
    const char next = at + option.size() < help.size() ? help[at + option.size()] : ' ';
    if (next != '-' && !std::isalnum(static_cast<unsigned char>(next))) return true;
  }
  return false;
}

/// Options of "train run.yaml --full" that the command does not have; empty if it is no command.
std::vector<std::string> unknown_options(const std::string& line) {
  static const std::set<std::string> nested{"data", "tokenizer", "bench"};
  static const std::regex name("[a-z]+"), option("--[a-z][a-z0-9-]*");
  std::istringstream words(line);
  std::string command, word;
  words >> command;
  std::vector<std::string> options;
  bool first = true;
  for (; words >> word; first = false) {
    if (first && nested.contains(command) && std::regex_match(word, name)) command += " " + word;
    std::smatch found;
    const std::string bare = word.substr(0, word.find_first_of("=…,.;:)"));
    if (std::regex_match(bare, found, option)) options.push_back(bare);
  }
  if (options.empty() || help_of(command).empty()) return {};
  std::erase_if(options, [&](const std::string& given) {
    return given == "--help" || has_option(help_of(command), given);
  });
  return options;
}

TEST(Pages, CommandsHaveTheOptionsThatTheyAreGiven) {
  EXPECT_EQ(unknown_options("train --config x.yaml --dry-run"),
            std::vector<std::string>{"--config"});
  const std::filesystem::path root = test::source_folder();
  std::vector<std::filesystem::path> pages{root / "README.md"};
  for (const auto& entry : std::filesystem::directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  // Up to the end of the line, of the quotation, or of the command.
  static const std::regex command("viaduct ([a-z]+ [^`\n|;&>#]*)");
  int commands = 0;
  for (const auto& page : pages) {
    const std::string text = read_file(page);
    for (std::sregex_iterator at(text.begin(), text.end(), command), end; at != end; ++at) {
      ++commands;
      for (const std::string& option : unknown_options((*at)[1].str()))
        ADD_FAILURE() << page.filename() << ": viaduct " << (*at)[1] << " has no " << option;
    }
  }
  EXPECT_GT(commands, 150);
}

}  // namespace
}  // namespace viaduct
