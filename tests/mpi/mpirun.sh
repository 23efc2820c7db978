#!/usr/bin/env bash
# mpirun.sh MPIRUN ARGUMENTS…: mpirun for tests: allowed for root, any number of ranks on any machine.
set -euo pipefail
mpirun=$1
shift
[[ -x $mpirun ]] || { echo "skipped: there is no mpirun (package openmpi-bin)" | tee /dev/stderr; exit 0; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Terminated ranks have nothing to save here: no grace period.
exec "$mpirun" --oversubscribe --bind-to none --mca odls_base_sigkill_timeout 0 "$@"
