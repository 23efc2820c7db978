#!/bin/sh
# on_host.sh NAMESPACE COMMAND…: COMMAND in a network namespace, on a machine that calls itself by its name.
namespace=$1
shift
exec ip netns exec "$namespace" unshare --uts sh -c 'hostname "$0"; exec "$@"' "$namespace" "$@"
