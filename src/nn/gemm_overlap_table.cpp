// Builds the ten rows from switches, defaults and the user's table.

#include <algorithm>
#include <optional>

#include "base/nearest.h"
#include "nn/gemm_overlap_presets.h"
#include "nn/tensor_parallel_config.h"
#include "tensor/state_formats.h"

namespace viaduct {
namespace {

constexpr unsigned bit(OverlapMethod method) {
  return 1u << static_cast<unsigned>(method);
}

/// The methods that a GEMM allows, and its default.
struct GemmRule {
  OverlapMethod by_default;
  unsigned allowed;
};

GemmRule rule_of(OverlapGemm gemm) {
  constexpr unsigned kRing = bit(OverlapMethod::ring_exchange);
  constexpr unsigned kPipeline = bit(OverlapMethod::pipeline);
  constexpr unsigned kBulk = bit(OverlapMethod::bulk);
  switch (gemm) {
    case OverlapGemm::qkv_fprop:
    case OverlapGemm::fc1_fprop:
    case OverlapGemm::proj_dgrad:
    case OverlapGemm::fc2_dgrad:
      return {OverlapMethod::ring_exchange, kRing};
    case OverlapGemm::proj_fprop:
    case OverlapGemm::fc2_fprop:
      return {OverlapMethod::pipeline, kPipeline | kRing};
    case OverlapGemm::qkv_dgrad:
    case OverlapGemm::fc1_dgrad:
      return {OverlapMethod::bulk, kBulk | kPipeline | kRing};
    case OverlapGemm::qkv_wgrad:
    case OverlapGemm::fc1_wgrad:
      return {OverlapMethod::bulk, kBulk};
  }
  return {};
}

std::string allowed_text(const GemmRule& rule) {
  std::string text;
  for (const OverlapMethod method :
       {OverlapMethod::bulk, OverlapMethod::ring_exchange, OverlapMethod::pipeline}) {
    if ((rule.allowed & bit(method)) == 0) continue;
    text += fmt::format("{}{}", text.empty() ? "" : " or ", choice_name(method));
  }
  return text;
}

bool is_rs_of_output(OverlapGemm gemm) {
  return gemm == OverlapGemm::proj_fprop || gemm == OverlapGemm::fc2_fprop;
}
bool is_bulk_dgrad(OverlapGemm gemm) {
  return gemm == OverlapGemm::qkv_dgrad || gemm == OverlapGemm::fc1_dgrad;
}
bool is_bulk_wgrad(OverlapGemm gemm) {
  return gemm == OverlapGemm::qkv_wgrad || gemm == OverlapGemm::fc1_wgrad;
}

constexpr int kSplits = 4;

/// Reads tp_comm_overlap_cfg and builds the rows.
class TableMaker {
 public:
  TableMaker(const TensorOverlapConfig& config, const OverlapConditions& conditions,
             Problems& problems, std::vector<std::string>* notes)
      : config_(config),
        conditions_(conditions),
        problems_(problems),
        notes_(notes),
        table_(config.tp_comm_overlap_cfg.value) {
    if (!config.tp_comm_overlap_cfg.is_name()) return;
    preset_ = overlap_preset(config.tp_comm_overlap_cfg.name(), problems,
                             conditions.on_gpu ? nullptr : notes);
    table_ = preset_ != nullptr ? preset_->table() : Value{};
  }

  GemmOverlapTable make() {
    check_names();
    if (config_.fp8_buf && conditions_.tp > 1 && !conditions_.fp8_products) {
      problems_.add("comm_overlap.fp8_buf: true needs a mixed_precision recipe with FP8 products");
    }
    GemmOverlapTable table;
    for (int i = 0; i < kOverlapGemms; ++i) {
      const auto gemm = static_cast<OverlapGemm>(i);
      table[gemm] = row(gemm);
    }
    check_backward(table, OverlapGemm::qkv_dgrad, OverlapGemm::qkv_wgrad);
    check_backward(table, OverlapGemm::fc1_dgrad, OverlapGemm::fc1_wgrad);
    return table;
  }

 private:
  template <class... Args>
  void problem(OverlapGemm gemm, fmt::format_string<Args...> format, Args&&... args) {
    problems_.add("comm_overlap.tp_comm_overlap_cfg.{}{}", overlap_gemm_name(gemm),
                  fmt::format(format, std::forward<Args>(args)...));
  }

  void check_names() {
    std::vector<std::string> names;
    for (int i = 0; i < kOverlapGemms; ++i)
      names.emplace_back(overlap_gemm_name(static_cast<OverlapGemm>(i)));
    for (const auto& [name, value] : table_.entries) {
      if (std::find(names.begin(), names.end(), name) != names.end()) {
        if (!value.is_map() && !value.is_null()) {
          problems_.add("comm_overlap.tp_comm_overlap_cfg.{}: expected a map, found {}", name,
                        to_flow_yaml(value));
        }
        continue;
      }
      const auto near = nearest_name(name, names);
      const bool external = name == "proj_wgrad" || name == "fc2_wgrad";
      problems_.add("comm_overlap.tp_comm_overlap_cfg: unknown GEMM '{}'{}", name.substr(0, 60),
                    external ? " (it reuses the gathered output gradient and communicates nothing)"
                    : near   ? fmt::format(", did you mean '{}'?", *near)
                             : "");
    }
  }

  /// Why the switches of section `model` turn a GEMM's overlap off, or null.
  const char* switched_off(OverlapGemm gemm) const {
    const std::string_view name = overlap_gemm_name(gemm);
    const bool qkv = name.starts_with("qkv"), fc1 = name.starts_with("fc1");
    if (qkv && config_.tp_comm_overlap_disable_qkv) return "tp_comm_overlap_disable_qkv=true";
    if (fc1 && config_.tp_comm_overlap_disable_fc1) return "tp_comm_overlap_disable_fc1=true";
    if (is_bulk_dgrad(gemm)) {
      const bool off = !config_.tp_comm_bulk_dgrad && !config_.tp_comm_overlap_rs_dgrad;
      return off ? "tp_comm_bulk_dgrad=false" : nullptr;
    }
    if (is_bulk_wgrad(gemm)) {
      if (conditions_.weight_gradients_wait)
        return "pipeline_schedule=zero_bubble (or dualpipe_v, or comm_overlap.delay_wgrad_compute)";
      if (config_.tp_comm_overlap_rs_dgrad) return "tp_comm_overlap_rs_dgrad=true";
      return config_.tp_comm_bulk_wgrad ? nullptr : "tp_comm_bulk_wgrad=false";
    }
    if (is_rs_of_output(gemm))
      return config_.tp_comm_overlap_rs ? nullptr : "tp_comm_overlap_rs=false";
    return config_.tp_comm_overlap_ag ? nullptr : "tp_comm_overlap_ag=false";
  }

  GemmOverlap row(OverlapGemm gemm) {
    const Value* own = table_.find(overlap_gemm_name(gemm));
    if (own != nullptr && !own->is_map()) own = nullptr;
    const GemmRule rule = rule_of(gemm);
    GemmOverlap row;
    row.method = method_without_table(gemm, rule);
    row.aggregate = config_.aggregate;
    row.fp8_buf = config_.fp8_buf;
    KernelSettings kernels = config_.kernels;
    std::optional<int> splits = config_.num_splits;
    const char* off = switched_off(gemm);
    if (own != nullptr) {
      // A named table is shared by many runs: a switch of this run removes its row.
      if (off != nullptr && own->find("method") != nullptr && preset_ == nullptr)
        problem(gemm, ": a method is given, but model.{} turns this overlap off", off);
      read_row(gemm, rule, *own, row, splits, kernels);
    }
    if (off != nullptr) return {};
    set_kernels(gemm, own, kernels, row);
    if (row.method == OverlapMethod::bulk) {
      row.num_splits = 1;
      row.aggregate = row.fp8_buf = false;
      return row;
    }
    if (row.method == OverlapMethod::ring_exchange) {
      if (row.aggregate && conditions_.tp % 2 != 0)
        problem(gemm, ".aggregate: chunks move in pairs, and tp = {} is odd", conditions_.tp);
      if (own != nullptr && own->find("num_splits") != nullptr && *splits != conditions_.tp) {
        problem(gemm, ".num_splits: a ring has as many chunks as ranks: tp = {}, found {}",
                conditions_.tp, *splits);
      }
      row.num_splits = conditions_.tp;
      check_fp8_buf(gemm, row, conditions_.features);
      return row;
    }
    row.aggregate = false;
    row.num_splits = pipeline_splits(gemm, splits);
    check_fp8_buf(gemm, row, conditions_.features / row.num_splits);
    return row;
  }

  /// Only where an output is reduce-scattered; `columns` of it at a time.
  void check_fp8_buf(OverlapGemm gemm, GemmOverlap& row, int64_t columns) {
    row.fp8_buf &= is_rs_of_output(gemm) || is_bulk_dgrad(gemm);
    if (!row.fp8_buf || !conditions_.fp8_products || columns % kStateGroup == 0) return;
    problem(gemm, ".fp8_buf: chunks have {} columns, not a multiple of the {} that share a scale",
            columns, kStateGroup);
  }

  OverlapMethod method_without_table(OverlapGemm gemm, const GemmRule& rule) const {
    // If weight gradients are deferred, the input gradient's reduce-scatter can only hide under its
    // own GEMM; a saved input gathered beside it would be held, tp times as large, until then.
    const bool own_gemm = config_.tp_comm_overlap_rs_dgrad || conditions_.weight_gradients_wait;
    if (is_bulk_dgrad(gemm) && own_gemm) return OverlapMethod::pipeline;
    const auto& wanted = config_.method;
    // Any other method than bulk for the input gradient loses the weight gradient's overlap: only
    // on request.
    const bool fits = wanted && (rule.allowed & bit(*wanted)) != 0 && !is_bulk_dgrad(gemm);
    return fits ? *wanted : rule.by_default;
  }

  /// What kernels are told of a GEMM whose method is known.
  void set_kernels(OverlapGemm gemm, const Value* own, KernelSettings& kernels, GemmOverlap& row) {
    const bool gathers = row.method == OverlapMethod::bulk && is_bulk_dgrad(gemm);
    const bool own_ce = own != nullptr && own->find("use_ce") != nullptr;
    // That of all GEMMs is for those that can.
    if (!own_ce && !gathers) kernels.use_ce.reset();
    const std::string wrong =
        wrong_kernel_settings(kernels, {conditions_.on_gpu, gathers, conditions_.symmetric_memory});
    const bool said = std::any_of(problems_of_kernels_.begin(), problems_of_kernels_.end(),
                                  [&](const std::string& one) { return one == wrong; });
    const bool is_own = own != nullptr && std::any_of(own->entries.begin(), own->entries.end(),
                                                      [](const auto& entry) {
                                                        return is_kernel_setting(entry.first);
                                                      });
    if (!wrong.empty() && is_own) {
      problem(gemm, "{}", wrong);
    } else if (!wrong.empty() && !said) {
      problems_of_kernels_.push_back(wrong);
      problems_.add("comm_overlap{}", wrong);
    }
    if (!conditions_.on_gpu) return;
    row.connection = kernels.connection();
    row.spare_multiprocessors = kernels.spare_multiprocessors();
  }

  void read_row(OverlapGemm gemm, const GemmRule& rule, const Value& own, GemmOverlap& row,
                std::optional<int>& splits, KernelSettings& kernels) {
    for (const auto& [key, value] : own.entries) {
      if (key == "method") {
        const auto method = choice_of<OverlapMethod>(value.scalar);
        if (!method || (rule.allowed & bit(*method)) == 0) {
          problem(gemm, ".method: expected {}, found {}", allowed_text(rule), to_flow_yaml(value));
        } else {
          row.method = *method;
        }
      } else if (key == "num_splits" || key == "num_split") {
        int count = 0;
        if (!read_value(value, count) || count < 1) {
          problem(gemm, ".num_splits: expected at least 1, found {}", to_flow_yaml(value));
        } else {
          splits = count;
        }
      } else if (key == "aggregate") {
        if (!read_value(value, row.aggregate))
          problem(gemm, ".aggregate: expected bool, found {}", to_flow_yaml(value));
      } else if (key == "fp8_buf") {
        if (!read_value(value, row.fp8_buf))
          problem(gemm, ".fp8_buf: expected bool, found {}", to_flow_yaml(value));
        if (row.fp8_buf && !conditions_.fp8_products)
          problem(gemm, ".fp8_buf: true needs a mixed_precision recipe with FP8 products");
      } else if (is_kernel_setting(key)) {
        const std::string wrong = read_kernel_setting(key, value, kernels);
        if (!wrong.empty()) {
          problem(gemm, ".{}: {}, found {}", key, wrong, to_flow_yaml(value));
        } else if (notes_ != nullptr && preset_ == nullptr && !conditions_.on_gpu) {
          notes_->push_back(fmt::format(
              "comm_overlap.tp_comm_overlap_cfg.{}.{} has no effect: it is told to kernels of GPUs",
              overlap_gemm_name(gemm), key));
        }
      } else {
        const auto near =
            nearest_name(key, {"method", "num_splits", "aggregate", "fp8_buf", "num_sm", "cga_size",
                               "set_sm_margin", "atomic_gemm", "use_ce"});
        problem(gemm, ": unknown field '{}'{}", key.substr(0, 60),
                near ? fmt::format(", did you mean '{}'?", *near) : "");
      }
    }
  }

  /// Number of chunks that the output features of every pipelined GEMM divide by.
  int pipeline_splits(OverlapGemm gemm, std::optional<int> given) {
    const int64_t features = conditions_.features, group = conditions_.group;
    const int splits = given.value_or(kSplits);
    const auto fits = [&](int chunks) {
      return chunks == 1 || (features % chunks == 0 && features / chunks % group == 0);
    };
    if (features == 0 || fits(splits)) return splits;
    int below = splits, above = splits;
    while (!fits(below)) --below;
    while (above < features && !fits(above)) ++above;
    if (given) {
      const std::string into =
          group == 1 ? "" : fmt::format(" into multiples of {}, {}", group, conditions_.group_text);
      problem(gemm, ".num_splits: {} does not divide the {} output features{}; nearest: {}", splits,
              features, into,
              fits(above) ? fmt::format("{} or {}", below, above) : fmt::format("{}", below));
    }
    return below;
  }

  /// An input gradient that is not bulk reduce-scatters its own output, so the weight gradient has
  /// nothing left to hide.
  void check_backward(GemmOverlapTable& table, OverlapGemm dgrad, OverlapGemm wgrad) {
    const OverlapMethod method = table[dgrad].method;
    if (method == OverlapMethod::bulk || method == OverlapMethod::none) return;
    const Value* own = table_.find(overlap_gemm_name(wgrad));
    if (switched_off(wgrad) == nullptr && own != nullptr && own->find("method") != nullptr) {
      problem(wgrad,
              ".method: {} of {} already reduce-scatters the input gradient; give only one of them",
              choice_name(method), overlap_gemm_name(dgrad));
    }
    table[wgrad] = {};
  }

  const TensorOverlapConfig& config_;
  const OverlapConditions conditions_;
  Problems& problems_;
  std::vector<std::string>* notes_;
  Value table_;  // the user's, or the preset's
  const OverlapPreset* preset_ = nullptr;
  std::vector<std::string> problems_of_kernels_;  // of settings of all GEMMs, each said once
};

}  // namespace

GemmOverlapTable resolve_gemm_overlap(const TensorOverlapConfig& config,
                                      const OverlapConditions& conditions, Problems& problems,
                                      std::vector<std::string>* notes) {
  const GemmOverlapTable table = TableMaker(config, conditions, problems, notes).make();
  return config.tp_comm_overlap.value_or(false) && conditions.tp > 1 ? table : GemmOverlapTable{};
}

}  // namespace viaduct
