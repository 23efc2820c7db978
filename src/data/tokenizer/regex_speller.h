#pragma once
// From a tree (regex_tree.h) to a PCRE2 pattern over kinds of characters (regex_alphabet.h). It
// uses nothing of PCRE2's that depends on what a byte means.

#include <string>
#include <vector>

#include "data/tokenizer/regex_alphabet.h"
#include "data/tokenizer/regex_tree.h"

namespace viaduct {

class RegexSpeller {
 public:
  /// `sets`: those that `alphabet` was made of. `later`: the pattern is tried behind the place
  /// where the search begins. All must outlive the speller.
  RegexSpeller(const RegexAlphabet& alphabet, const std::vector<const CodePointSet*>& sets,
               bool later)
      : alphabet_(alphabet), sets_(sets), later_(later) {}

  std::string spell(const RegexNode& node) const;

 private:
  std::string joined(const RegexNode& node, std::string_view between) const;
  std::string spell_behind(const RegexNode& node) const;
  std::string spell_repeat(const RegexNode& node) const;
  std::string spell_set(const CodePointSet& set) const;

  const RegexAlphabet& alphabet_;
  const std::vector<const CodePointSet*>& sets_;
  bool later_;
};

}  // namespace viaduct
