#!/usr/bin/env bash
# mpirun.sh MPIRUN ARGUMENTS…: runs mpirun for tests: as root too, and with any number of ranks.
set -euo pipefail
mpirun=$1
shift
[[ -x $mpirun ]] || { echo "skipped: there is no mpirun (package openmpi-bin)" | tee /dev/stderr; exit 0; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# No grace period: terminated ranks have nothing to save here.
exec "$mpirun" --oversubscribe --bind-to none --mca odls_base_sigkill_timeout 0 "$@"
