#!/usr/bin/env bash
# run.sh MODEL_DIR [options of compare.py], or run.sh families [options of families.py]: makes the environment of the oracle if it is not
# there, then compares.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
script=compare.py
if [[ ${1:-} == families ]]; then
  script=families.py
  shift
fi
"$root/tools/python_env.sh" "$root/build/oracle-env" "$here/requirements.txt"
exec "$root/build/oracle-env/bin/python" -B "$here/$script" --viaduct "$root/build/release/viaduct" "$@"
