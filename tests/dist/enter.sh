#!/bin/sh
# Runs a program of another root: `enter.sh ROOT USER PROGRAM [ARGUMENT ...]`. It has the machine's `/proc`, `/dev` and
# network, as in a container on the host's network.
set -eu
root=$1 user=$2
shift 2
mkdir -p "$root/proc" "$root/dev"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
home=$(awk -F : -v uid="$user" '$3 == uid { print $6 }' "$root/etc/passwd")
# Whoever is not root has only one user here, which owns all that was unpacked.
[ "$(awk '{ print $3; exit }' /proc/self/uid_map)" -gt 1 ] || user=0
cd "$root$home"
exec env --ignore-environment HOME="$home" PATH=/usr/bin:/usr/sbin chroot --userspec="$user:$user" "$root" "$@"
