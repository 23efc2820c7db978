#include "probe/probe_batch.h"

#include <algorithm>

#include "base/error.h"
#include "probe/probe_integers.h"

namespace viaduct {

std::vector<int64_t> probe_integers(const TensorSource& file, const std::string& name,
                                    int64_t step) {
  Tensor tensor = file.tensor(name);
  if (step >= 0) tensor = tensor.select(step);
  std::vector<int64_t> values(static_cast<size_t>(tensor.elements()));
  switch (tensor.dtype()) {
    case DType::i64:
      std::copy_n(tensor.data<int64_t>(), values.size(), values.begin());
      break;
    case DType::i32:
      std::copy_n(tensor.data<int32_t>(), values.size(), values.begin());
      break;
    default:
      fail<IoError>("{}: {} is {}, expected i64 or i32", file.where(), name, describe(tensor));
  }
  file.check_read();
  return values;
}

ProbeBatch read_probe_batch(const TensorSource& file, const std::string& prefix, int64_t step) {
  const std::string ids_name = prefix + "input_ids";
  const TensorInfo* info = file.find(ids_name);
  const int rank = step >= 0 ? 3 : 2;
  VIADUCT_CHECK(IoError, info != nullptr, "{}: {} is missing", file.where(), ids_name);
  VIADUCT_CHECK(IoError, info->shape.rank() == rank && info->shape.elements() > 0,
                "{}: {} is {}, expected {}", file.where(), ids_name, to_string(info->shape),
                step >= 0 ? "[N, B, S]" : "[B, S]");
  for (const char* field : {"decoder_input_ids"}) {
    VIADUCT_CHECK(ConfigError, !file.contains(prefix + field),
                  "{}: {} is for models with an encoder, and this one has none", file.where(),
                  prefix + field);
  }
  ProbeBatch batch;
  batch.rows = info->shape[rank - 2];
  batch.length = info->shape[rank - 1];
  batch.first_token = std::max<int64_t>(step, 0) * batch.rows * batch.length;
  batch.ids = probe_integers(file, ids_name, step);
  const auto companion = [&](const char* field) {
    const std::string name = prefix + field;
    const TensorInfo* found = file.find(name);
    if (found == nullptr) return std::vector<int64_t>();
    VIADUCT_CHECK(IoError, found->shape == info->shape, "{}: {} is {}, expected {} as {}",
                  file.where(), name, to_string(found->shape), to_string(info->shape), ids_name);
    return probe_integers(file, name, step);
  };
  batch.labels = companion("labels");
  batch.positions = companion("position_ids");
  batch.attention_mask = companion("attention_mask");
  batch.document_ids = companion("document_ids");
  if (file.contains(prefix + "cu_seqlens")) {
    const auto& cu = batch.cu_seqlens =
        probe_integers(file, prefix + "cu_seqlens",
                       file.find(prefix + "cu_seqlens")->shape.rank() > 1 ? step : -1);
    VIADUCT_CHECK(IoError,
                  !cu.empty() && cu.front() == 0 && cu.back() == batch.rows * batch.length &&
                      std::is_sorted(cu.begin(), cu.end()),
                  "{}: {}cu_seqlens: expected ascending borders from 0 to {} tokens", file.where(),
                  prefix, batch.rows * batch.length);
    for (int64_t row = 1; row < batch.rows; ++row) {
      VIADUCT_CHECK(IoError, std::binary_search(cu.begin(), cu.end(), row * batch.length),
                    "{}: {}cu_seqlens lacks the border of row {} at {}", file.where(), prefix, row,
                    row * batch.length);
    }
  }
  batch.check_mask();
  return batch;
}

bool ProbeBatch::document_begins(int64_t token) const {
  const auto at = static_cast<size_t>(token);
  return token % length == 0 ||
         (!document_ids.empty() && document_ids[at] != document_ids[at - 1]) ||
         (!cu_seqlens.empty() && std::binary_search(cu_seqlens.begin(), cu_seqlens.end(), token));
}

void ProbeBatch::check_mask() const {
  bool seen = false, ended = false;  // in this document: a visible token, a later hidden one
  for (int64_t token = 0; token < rows * length && !attention_mask.empty(); ++token) {
    if (document_begins(token)) seen = ended = false;
    const bool visible = attention_mask[static_cast<size_t>(token)] != 0;
    VIADUCT_CHECK(ConfigError, !(visible && ended),
                  "probe batch: attention_mask hides tokens in the middle of row {}, before token "
                  "{}; hidden tokens at the ends of a document are supported",
                  token / length, token % length);
    ended = ended || (seen && !visible);
    seen = seen || visible;
  }
}

int64_t ProbeBatch::label_at(size_t token, bool last_of_row, bool begins_next) const {
  if (encoder != nullptr) return labels[token];
  if (last_of_row || begins_next) return -100;
  return labels.empty() ? ids[token + 1] : labels[token + 1];
}

int64_t ProbeBatch::position_limit() const {
  int64_t limit = length;
  for (int64_t p : positions) limit = std::max(limit, std::min<int64_t>(p, INT32_MAX) + 1);
  return limit;
}

void ProbeBatch::count_positions_from_mask() {
  if (attention_mask.empty() || !positions.empty()) return;
  int64_t visible = 0;  // in this document so far
  for (int64_t token = 0; token < rows * length; ++token) {
    if (document_begins(token)) visible = 0;
    positions.push_back(attention_mask[static_cast<size_t>(token)] != 0 ? visible++ : 0);
  }
}

HostBatch ProbeBatch::micro_batch(int64_t begin, int64_t count) const {
  HostBatch out;
  for (int64_t row = begin; row < begin + count; ++row) {
    int64_t position = 0;
    for (int64_t t = 0; t < length; ++t) {
      const auto at = static_cast<size_t>(row * length + t);
      // A document begins here if its id changes, a border is here, or padding begins or ends.
      const auto begins = [&](size_t i) {
        return document_begins(static_cast<int64_t>(i)) ||
               (!attention_mask.empty() &&
                (attention_mask[i] != 0) != (attention_mask[i - 1] != 0));
      };
      const bool packed = !document_ids.empty() || !cu_seqlens.empty();
      if (t == 0 || begins(at)) {
        if (t > 0) out.end_document();
        if (packed || t == 0) position = 0;
      }
      VIADUCT_CHECK(IoError, ids[at] >= 0 && ids[at] <= INT32_MAX,
                    "probe batch: input id {} of token {}", ids[at], at);
      out.ids.push_back(static_cast<int32_t>(ids[at]));
      out.positions.push_back(static_cast<int32_t>(positions.empty() ? position : positions[at]));
      ++position;
      out.token_index.push_back(first_token + static_cast<int64_t>(at));
      const bool last = t + 1 == length;
      const int64_t label = label_at(at, last, packed && !last && begins(at + 1));
      const bool scored = label != -100;
      VIADUCT_CHECK(IoError, !scored || (label >= 0 && label <= INT32_MAX),
                    "probe batch: label {} of token {}", label, at + (encoder ? 0 : 1));
      VIADUCT_CHECK(ConfigError, !scored || attention_mask.empty() || attention_mask[at + 1] != 0,
                    "probe batch: token {} is hidden by attention_mask, but its label {} is scored "
                    "(expected −100)",
                    at + 1, label);
      VIADUCT_CHECK(ConfigError, !scored || attention_mask.empty() || attention_mask[at] != 0,
                    "probe batch: token {} is hidden by attention_mask, but the label {} after it "
                    "is scored (expected −100)",
                    at, label);
      out.targets.push_back(scored ? static_cast<int32_t>(label) : -1);
      out.loss_weight.push_back(scored ? 1.0f : 0.0f);
    }
    out.end_document();
  }
  out.images = images_of(begin, count);
  if (encoder != nullptr) {
    auto rows_of_encoder = std::make_shared<HostBatch>(encoder->micro_batch(begin, count));
    out.encoder_document = encoder->visible_documents(begin, *rows_of_encoder);
    out.encoder = std::move(rows_of_encoder);
  }
  return out;
}

}  // namespace viaduct
