// The batch file of `probe` for an encoder-decoder model: rows of the encoder, and labels and rows
// of the decoder.

#include <algorithm>

#include "base/error.h"
#include "probe/probe_batch.h"
#include "probe/probe_integers.h"

namespace viaduct {
namespace {

/// Of a tensor [B, length], or [steps, B, length].
struct RowsInfo {
  int64_t rows = 0, length = 0;
};

RowsInfo rows_of(const TensorSource& file, const std::string& name, int64_t step) {
  const TensorInfo* info = file.find(name);
  const int rank = step >= 0 ? 3 : 2;
  VIADUCT_CHECK(IoError, info != nullptr, "{}: {} is missing", file.where(), name);
  VIADUCT_CHECK(IoError, info->shape.rank() == rank && info->shape.elements() > 0,
                "{}: {} is {}, expected {}", file.where(), name, to_string(info->shape),
                step >= 0 ? "[N, B, S]" : "[B, S]");
  return {info->shape[rank - 2], info->shape[rank - 1]};
}

}  // namespace

ProbeBatch read_probe_pairs(const TensorSource& file, const std::string& prefix, int64_t step,
                            const EncoderConfig& model) {
  for (const char* field : {"position_ids", "document_ids", "cu_seqlens", "decoder_attention_mask",
                            "inputs_embeds", "decoder_inputs_embeds"}) {
    VIADUCT_CHECK(ConfigError, !file.contains(prefix + field),
                  "{}: {} is not supported for a model with an encoder; expected input_ids, "
                  "attention_mask, labels and decoder_input_ids",
                  file.where(), prefix + field);
  }
  const auto place = [&](const RowsInfo& info) {
    ProbeBatch rows;
    rows.rows = info.rows, rows.length = info.length;
    rows.first_token = std::max<int64_t>(step, 0) * info.rows * info.length;
    return rows;
  };
  const std::string ids = prefix + "input_ids", mask = prefix + "attention_mask",
                    labels = prefix + "labels", given = prefix + "decoder_input_ids";
  const RowsInfo inputs = rows_of(file, ids, step), outputs = rows_of(file, labels, step);
  const auto expect_like = [&](const std::string& name, const std::string& other,
                               const RowsInfo& like, bool same_length) {
    const RowsInfo found = rows_of(file, name, step);
    VIADUCT_CHECK(IoError, found.rows == like.rows && (!same_length || found.length == like.length),
                  "{}: {} has {} rows of {} tokens, expected {} of {}, as {}", file.where(), name,
                  found.rows, found.length, like.rows,
                  same_length ? std::to_string(like.length) : "any number", other);
  };
  expect_like(labels, ids, inputs, false);

  auto encoder = std::make_shared<ProbeBatch>(place(inputs));
  encoder->ids = probe_integers(file, ids, step);
  encoder->labels.assign(encoder->ids.size(), -100);
  if (file.contains(mask)) {
    expect_like(mask, ids, inputs, true);
    encoder->attention_mask = probe_integers(file, mask, step);
    encoder->check_mask();
  }
  ProbeBatch batch = place(outputs);
  batch.labels = probe_integers(file, labels, step);
  if (file.contains(given)) {
    expect_like(given, labels, outputs, true);
    batch.ids = probe_integers(file, given, step);
  } else {
    batch.ids = batch.labels;
    for (int64_t row = 0; row < batch.rows; ++row) {
      const auto begin = batch.ids.begin() + row * batch.length;
      std::shift_right(begin, begin + batch.length, 1);
      *begin = model.start_token;
    }
    std::ranges::replace(batch.ids, int64_t{-100}, model.padding_token);
  }
  batch.encoder = std::move(encoder);
  return batch;
}

std::vector<int32_t> ProbeBatch::visible_documents(int64_t begin, const HostBatch& batch) const {
  std::vector<int32_t> documents;
  for (size_t d = 0; d + 1 < batch.document_offsets.size(); ++d) {
    const int64_t token = batch.document_offsets[d], row = token / length;
    if (token % length == 0) documents.push_back(-1);
    const auto at = static_cast<size_t>(begin * length + token);
    if (attention_mask.empty() || attention_mask[at] != 0)
      documents[static_cast<size_t>(row)] = static_cast<int32_t>(d);
  }
  return documents;
}

}  // namespace viaduct
