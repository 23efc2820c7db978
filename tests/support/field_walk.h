#pragma once
// The observable effects of a run's settings, as texts that can be compared between runs; and, for
// each built field, another value and where its effect is observed (field_walk_table.cpp).

#include <set>
#include <string>
#include <vector>

#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct::test {

/// Where the effect of a setting is observed.
enum class Shows {
  record,   // the dry run of each pipeline stage: ops, kernels, allocations, collectives, order
  numbers,  // steps done by a short run, its validation losses, its weights and moments
  files,    // the files of the run's folder, and the keys of its metrics
  notes,    // the notes before the run starts
  said,     // its output without progress, and its final error
};

/// One built field. Both runs of a comparison have the settings `with`; the second one also has
/// field=other.
struct FieldCase {
  std::string field;
  std::string other;  // a legal value other than the default and the one in `with`
  Shows shows = Shows::record;
  Overrides with = {};
  /// Illegal values in addition to those that follow from type, range and choices.
  std::vector<std::string> wrong = {};
  /// Why the field may change nothing in a plain run without a note; empty: it may not.
  std::string quiet = {};
  /// If the effect cannot be observed here: the file under tests/ and the name of the test that
  /// shows it. `other` and `shows` are then used only in plain runs.
  std::string proof_file = {}, proof_test = {};
  Overrides also = {};  // settings of the second run only, if the value needs them
};

/// `more` after `run`; "-section.field" removes a field from `run`.
Overrides joined(Overrides run, const Overrides& more);

/// One entry for each built field, and for fields that are still planned, in any order.
std::vector<FieldCase> field_cases();

/// The settings of a plain run: a tiny Llama in FP32, or a tiny GPT-2 in BF16, on one rank.
std::vector<Overrides> plain_runs();

/// Files that the values of cases name: "$SAVE" is the save folder of the run, "$RUN" a run of two
/// steps with a checkpoint of each, "$DAMAGED" the same with the newer one damaged, "$ADAPTER"
/// a run with adapters, "$CORPUS_A",
/// "$CORPUS_B" and "$CORPUS_C" data sets, "$CHAT" one of conversations, "$MODEL" a Hugging Face
/// folder, "$LLAVA" one of a model with images, "$TOKENIZER" a tokenizer, "$TASKS" a file of tasks,
/// "$PROMPTS" one of prompts, "$OUT" a folder for output.
class WalkFiles {
 public:
  WalkFiles();
  Overrides filled(Overrides overrides) const;

 private:
  void make_runs() const;
  void make_adapter() const;

  TemporaryFolder folder_;
  std::vector<std::pair<std::string, std::string>> values_;
};

/// The notes of the configuration after loading and preparing it, one a line. Throws ConfigError.
std::string notes_of(const Overrides& overrides);
/// The text of the dry run. Throws ConfigError.
std::string record_of(const Overrides& overrides);

struct RunText {
  std::string numbers, files;
  std::string said;  // notes, output without progress, the final error
  bool failed = false;
};
/// Trains, with one thread a rank. `files` is empty unless it saves.
RunText run_text(const Overrides& overrides, bool save);

}  // namespace viaduct::test
