#pragma once
// Loss and perplexity of a text or a data set, as `viaduct eval --data` reports them.

#include "base/function_ref.h"
#include "comm/communicator.h"
#include "engine/plan_memory.h"
#include "inference/evaluation_data.h"

namespace viaduct {

struct TextEvaluationRequest {
  InferenceRequest inference;
  /// The prefix of an indexed data set, whose documents follow each other as in training, or with a
  /// mask are conversations; or a text file, to which the tokenizer adds its beginning tokens.
  std::filesystem::path data;
  /// Of texts: tokens between the beginnings of rows; none: the sequence length, rows do not
  /// overlap.
  std::optional<int64_t> stride;
};

struct TextEvaluation {
  RunSetup run;
  EvaluationData data;
};

/// Opens model and data; reads no weight. ConfigError for a stride outside [1, sequence length], or
/// of conversations, and as conversation_data and text_data; IoError for files.
TextEvaluation prepare_text_evaluation(const TextEvaluationRequest& request);

struct TextScore {
  double loss = 0;  // mean over the scored tokens, natural logarithm
  double perplexity = 0;
  /// Per byte of the scored tokens' text, without special tokens; none without a tokenizer.
  std::optional<double> bits_per_byte;
  int64_t tokens = 0;  // scored
  double seconds = 0;  // of the evaluation, weights read before
};

/// Every rank of `world` makes the same call and gets the same result. IoError where no token is
/// scored. The device's memory is planned first. `progress` gets the numbers of finished and of all
/// micro-batches.
TextScore evaluate_text(const TextEvaluation& evaluation, Device& device, const OpTable& ops,
                        std::shared_ptr<Communicator> world,
                        FunctionRef<void(int64_t done, int64_t of)> progress);

}  // namespace viaduct
