#include "comm/nccl_options.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"
#include "comm/group_names.h"
#include "config/convert.h"
#include "config/value.h"

namespace viaduct {
namespace {

/// NCCL's limits: channels of a connection, and blocks of a cluster.
constexpr int kMostCtas = 64, kMostClustered = 8;

/// The groups of gradients and weights, and the tensor-parallel one, whose exchanges may run in
/// pieces beside products (tp_comm_overlap).
bool has_user_buffers(std::string_view group) {
  return group.starts_with("dp") || group.starts_with("expert_dp") || group == "tp";
}

class OptionsReader {
 public:
  explicit OptionsReader(Problems& problems) : problems_(problems) {}

  void read(const Value& file, NcclOptions& options) {
    if (file.is_null()) return;
    if (!file.is_map()) {
      problems_.add("{}: {}: expected a map from groups to their settings", kField,
                    file.source.text());
      return;
    }
    const std::vector<std::string> names = group_names();
    for (const auto& [given, settings] : file.entries) {
      const std::optional<std::string> name = group_of_name(given);
      if (!name) {
        problems_.add("{}: {}: there is no group \"{}\"{}", kField, settings.source.text(), given,
                      did_you_mean(given, names));
      } else if (!settings.is_map()) {
        problems_.add(
            "{}: {}: {}: expected a map with min_ctas, max_ctas, cga_cluster_size or "
            "net_name",
            kField, settings.source.text(), given);
      } else {
        read_group(given, settings, options[*name]);
      }
    }
  }

 private:
  static constexpr std::string_view kField = "dist.nccl_communicator_config_path";

  static std::string did_you_mean(const std::string& name, const std::vector<std::string>& known) {
    const auto near = nearest_name(name, known);
    return near ? "; did you mean " + *near + "?" : "; expected a name like dp_cp, tp, pp or ep";
  }

  void read_group(const std::string& group, const Value& settings, NcclGroupOptions& options) {
    for (const auto& [name, value] : settings.entries) {
      if (name == "min_ctas") {
        read_number(group, name, value, 1, kMostCtas, options.min_ctas);
      } else if (name == "max_ctas") {
        read_number(group, name, value, 1, kMostCtas, options.max_ctas);
      } else if (name == "cga_cluster_size") {
        read_number(group, name, value, 0, kMostClustered, options.cga_cluster_size);
      } else if (name == "net_name") {
        if (!read_value(value, options.net_name))
          problems_.add("{}: {}: {}.net_name: expected a string", kField, value.source.text(),
                        group);
      } else {
        problems_.add("{}: {}: {}: there is no setting \"{}\"{}", kField, value.source.text(),
                      group, name,
                      did_you_mean(name, {"min_ctas", "max_ctas", "cga_cluster_size", "net_name"}));
      }
    }
    if (options.min_ctas && options.max_ctas && *options.min_ctas > *options.max_ctas)
      problems_.add("{}: {}: min_ctas = {} is above max_ctas = {}; expected min_ctas = {}", kField,
                    group, *options.min_ctas, *options.max_ctas, *options.max_ctas);
  }

  void read_number(const std::string& group, const std::string& name, const Value& value, int least,
                   int most, std::optional<int>& target) {
    int number = 0;
    if (!read_value(value, number)) {
      problems_.add("{}: {}: {}.{}: expected a whole number from {} to {}", kField,
                    value.source.text(), group, name, least, most);
    } else if (number < least || number > most) {
      problems_.add("{}: {}: {}.{}: {} is not from {} to {}; expected {}", kField,
                    value.source.text(), group, name, number, least, most,
                    std::clamp(number, least, most));
    } else {
      target = number;
    }
  }

  Problems& problems_;
};

}  // namespace

NcclGroupOptions with_settings(NcclGroupOptions options, const ConnectionSettings& settings) {
  if (settings.multiprocessors > 0) options.min_ctas = options.max_ctas = settings.multiprocessors;
  if (settings.cluster_size > 0) options.cga_cluster_size = settings.cluster_size;
  options.without_ctas = settings.copy_engines;
  return options;
}

NcclOptions nccl_options(const DistConfig& config, Problems& problems) {
  NcclOptions options;
  if (const auto& path = config.nccl_communicator_config_path) {
    try {
      const MappedFile file(*path);
      OptionsReader(problems).read(parse_yaml(file.text(), *path), options);
    } catch (const ConfigError& error) {
      problems.add_text(error.what());
    } catch (const IoError& error) {
      problems.add("dist.nccl_communicator_config_path: {}", error.what());
    }
  }
  // NCCL gives the switches to the connection that is made first with them.
  if (config.use_sharp) options["dp_cp"].in_switches = true;
  if (config.nccl_ub) {
    for (const std::string& name : group_names())
      if (has_user_buffers(name)) {
        options[name].registers_memory = true;
        options[name].symmetric_memory = config.symmetric_memory;
      }
  }
  return options;
}

NcclRankOptions nccl_rank_options(const DistConfig& config) {
  return {config.nccl_blocking, config.nccl_multiprocessors};
}

bool has_nccl_settings(const DistConfig& config, Problems& problems) {
  return !nccl_options(config, problems).empty() || nccl_rank_options(config) != NcclRankOptions();
}

NcclOptions nccl_options(const DistConfig& config) {
  Problems problems;
  NcclOptions options = nccl_options(config, problems);
  problems.throw_if_any();
  return options;
}

}  // namespace viaduct
