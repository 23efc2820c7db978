#!/usr/bin/env bash
# python_env.sh [FOLDER [REQUIREMENTS [PIP_OPTION…]]]: makes (or brings up to date) a virtual environment in FOLDER (default build/python-env) with
# the packages of REQUIREMENTS (default tools/python-requirements.txt) from PyPI. Does nothing if it is up to date.
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:-$tools/../build/python-env}
requirements=${2:-$tools/python-requirements.txt}
python=/usr/bin/python3 # the system's, because python3-venv belongs to it
[[ -x $python ]] || python=python3

cmp -s "$requirements" "$folder/installed.txt" && exit 0
rm -rf "$folder"
"$python" -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check --no-input --retries 1 --timeout 20 "${@:3}" --requirement "$requirements" || {
  echo "python_env.sh: error: cannot install the packages of $requirements from PyPI: is there a network?" >&2
  exit 1
}
cp "$requirements" "$folder/installed.txt"
