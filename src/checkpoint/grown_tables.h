#pragma once
// Weights with a larger vocabulary: the tables that have a row for each token get further rows,
// each the mean of rows that they had (Hewitt 2021, "Initializing New Word Embeddings for
// Pretrained Language Models").

#include <cstdint>
#include <memory>
#include <vector>

#include "checkpoint/derived_source.h"
#include "model/model_config.h"

namespace viaduct {

/// A row of the grown tables: the mean of the rows `of` that each table had; empty: of all.
struct NewRow {
  int64_t row = 0;
  std::vector<int32_t> of;
};

/// `stored`, the weights of `model`, with `rows` ≥ model.vocabulary rows in the token embedding,
/// the head with its bias, and their copies in layers of multi-token prediction; a head that shares
/// the embedding still does. `fresh`, ascending by row, are set: all rows from model.vocabulary on,
/// and any before. Means are computed in FP64 and rounded once to the table's format; the tables
/// are read for them here, once. Other tensors keep their quantized blocks; a grown table has none.
/// IoError if a table has other rows than the model.
std::unique_ptr<TensorSource> grow_tables(std::unique_ptr<TensorSource> stored,
                                          const ModelConfig& model, int64_t rows,
                                          const std::vector<NewRow>& fresh);

/// New rows `begin` to `end`, each the mean of all.
std::vector<NewRow> rows_like_all(int64_t begin, int64_t end);

}  // namespace viaduct
