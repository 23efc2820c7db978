#pragma once
// Converts the command line of `probe` to the arguments of run_probe.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/model_folder.h"
#include "checkpoint/safetensors_reader.h"
#include "probe/probe.h"
#include "run/run_config.h"

namespace viaduct {

struct ProbeSetup {
  RunConfig config;
  ModelConfig model;
  std::unique_ptr<TensorSource> weights;
  std::unique_ptr<SafetensorsFile> batch;
  ProbeSettings settings;
  std::vector<std::string> notes;  // for the start
};

struct ProbeRequest {
  std::filesystem::path model, batch;
  std::vector<std::string> overrides;
  std::optional<std::string> adapter;  // as of open_adapter
  bool train = false, hidden = false, weights = false;
  DistConfig dist;  // defaults, as a launcher gives them
};

/// Opens model and batch, and reads the overrides over the defaults of a probe: FP32, constant
/// learning rate without warm-up, the given batch as global batch, as many steps as the file has.
/// ConfigError or IoError with all problems found.
ProbeSetup prepare_probe(const ProbeRequest& request);

}  // namespace viaduct
