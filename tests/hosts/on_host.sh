#!/bin/sh
# on_host.sh NAMESPACE COMMAND…: runs COMMAND in a network namespace, with the namespace's name as host name.
namespace=$1
shift
exec ip netns exec "$namespace" unshare --uts sh -c 'hostname "$0"; exec "$@"' "$namespace" "$@"
