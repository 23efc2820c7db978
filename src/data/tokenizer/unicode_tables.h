#pragma once
// Tables of Unicode, made by tools/unicode/make_tables.py; unicode_sets.h and unicode_forms.h read
// them.

#include <cstddef>
#include <cstdint>

namespace viaduct::unicode_tables {

/// The version of the classes, and the package of which the tables are.
extern const char* const kUnicodeVersion;
extern const char* const kTokenizersVersion;

/// Begins of stretches of one general category: first character << 5 | index (unicode_sets.cpp).
extern const uint32_t kCategoryRuns[];
extern const size_t kCategoryRunsSize;
/// Begins of stretches of one script: first character << 8 | 1 + index of kScriptNames, or 0.
extern const uint32_t kScriptRuns[];
extern const size_t kScriptRunsSize;
extern const char* const kScriptNames[];
extern const size_t kScriptNamesSize;
/// For each name: a count, then that many begins and ends (one past the last) in turn, each as its
/// distance from the one before.
extern const char* const kSetNames[];
extern const size_t kSetNamesSize;
extern const uint32_t kSets[];
extern const size_t kSetsSize;
/// First, last, step and what is added, for the characters that have a lower case of one character
/// (all but U+0130), and for those that (?i) takes for the first of their group.
extern const int32_t kLowercase[];
extern const size_t kLowercaseSize;
extern const int32_t kCaseGroups[];
extern const size_t kCaseGroupsSize;
/// A character, a count and its decomposition in full; Hangul syllables are left out. The second
/// table has the compatibility decompositions that differ from the canonical ones. The third: a
/// character and a count, and the characters that (?i) takes for it.
extern const uint32_t kCanonical[];
extern const size_t kCanonicalSize;
extern const uint32_t kCompatible[];
extern const size_t kCompatibleSize;
extern const uint32_t kLongFolds[];
extern const size_t kLongFoldsSize;
/// Two characters and the one that they compose to.
extern const uint32_t kCompositions[];
extern const size_t kCompositionsSize;
/// Begins of stretches of one combining class: first character << 8 | class.
extern const uint32_t kCombiningRuns[];
extern const size_t kCombiningRunsSize;

}  // namespace viaduct::unicode_tables
