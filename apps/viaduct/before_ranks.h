#pragma once
// Under a launcher every process finds the same errors in a command line or a configuration, before
// the ranks connect: one process reports them.

#include "base/given_path.h"

namespace viaduct::cli {

/// A usage or configuration error that the process of rank 0 reports. Whoever is still running
/// some seconds later reports it, too: then there may have been no rank 0.
struct SaidByRank0 {
  ConfigError error;
};

/// False in processes that a launcher started as ranks other than 0.
bool says_common_errors();

/// Runs the part of a command that every process runs before the ranks connect, so that common
/// errors are reported once: throws SaidByRank0 in place of ConfigError if another process reports
/// it. Errors of files, missing ones included, are reported by every process that has them.
template <class F>
auto before_ranks(F&& prepare) {
  try {
    return prepare();
  } catch (const MissingPath&) {
    throw;
  } catch (const ConfigError& error) {
    if (!says_common_errors()) throw SaidByRank0{error};
    throw;
  }
}

/// Gives rank 0 time to report: launchers end all processes when one has failed, so they end this
/// one when rank 0 is done.
void wait_for_rank0();

}  // namespace viaduct::cli
