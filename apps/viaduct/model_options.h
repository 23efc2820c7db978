#pragma once
// What commands have in common that read a model and run its forwards: the option that names it,
// their overrides, and what they say at the start.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "override_scope.h"
#include "run/setup.h"

namespace viaduct::cli {

/// --model, which is required.
void add_model_option(CLI::App& app, std::filesystem::path& model);

/// For --help of OVERRIDES: examples (`ranks`: what follows those of ranks) and what is read.
std::string overrides_text(const OverrideScope& scope, const std::string& ranks = "");

/// What prepare_inference notes, to the log.
void log_notes(const RunSetup& setup);

}  // namespace viaduct::cli
