#pragma once
// What a run shows of its settings, as texts that two runs can be compared by; and, for each built
// field, another value and where its effect shows (field_walk_table.cpp).

#include <set>
#include <string>
#include <vector>

#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct::test {

/// Where the effect of a setting shows.
enum class Shows {
  record,   // the dry run of each pipeline stage: ops, kernels, allocations, collectives, order
  numbers,  // how far a run of a few steps comes, its validation losses, its weights and moments
  files,    // what the run leaves in its folder, and the keys of its metrics
  notes,    // what is said before the run starts
  said,     // what it writes to the screen beside its progress, and the error it ends with
};

/// One built field. Both runs of a comparison have `with`; the second one has field=other too.
struct FieldCase {
  std::string field;
  std::string other;  // a legal value that is neither the default nor what `with` gives
  Shows shows = Shows::record;
  Overrides with = {};
  /// Illegal values beside those that follow from type, range and choices.
  std::vector<std::string> wrong = {};
  /// Why a plain run may stay as it is without saying so; empty: it may not.
  std::string quiet = {};
  /// The effect cannot be seen from here: file under tests/, and a name in it, of the test that
  /// shows it. `other` and `shows` are not used then but in plain runs.
  std::string proof_file = {}, proof_test = {};
  Overrides also = {};  // of the second run alone, where the value needs another one
};

/// `more` behind `run`; "-section.field" takes back what `run` says of a field.
Overrides joined(Overrides run, const Overrides& more);

/// One entry for each built field, in any order; and of fields that are still planned.
std::vector<FieldCase> field_cases();

/// The settings of a plain run: a tiny Llama in FP32, or a tiny GPT-2 in BF16, on one rank.
std::vector<Overrides> plain_runs();

/// Files that the values of cases name: "$SAVE" is the folder where the run saves, "$RUN" a run of
/// two steps with a checkpoint of each,
/// "$DAMAGED" the same with the newer one damaged, "$CORPUS_A", "$CORPUS_B" and "$CORPUS_C" data
/// sets,
/// "$MODEL" a Hugging Face folder, "$TOKENIZER" a tokenizer, "$OUT" a folder for output.
class WalkFiles {
 public:
  WalkFiles();
  Overrides filled(Overrides overrides) const;

 private:
  void make_runs() const;

  TemporaryFolder folder_;
  std::vector<std::pair<std::string, std::string>> values_;
};

/// Of the configuration as loaded and prepared: its notes, one a line. Throws ConfigError.
std::string notes_of(const Overrides& overrides);
/// Of the dry run. Throws ConfigError.
std::string record_of(const Overrides& overrides);

struct RunText {
  std::string numbers, files;
  std::string said;  // notes, lines on the screen that are no progress, the error it ended with
  bool failed = false;
};
/// Trains for real, on as many threads as there are ranks. `files` is empty unless it saves.
RunText run_text(const Overrides& overrides, bool save);

}  // namespace viaduct::test
