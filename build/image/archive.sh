#!/bin/sh
# Prints the address of Debian's archive that apt uses on this machine, without a slash at the end.
set -eu
# shellcheck disable=SC2016
apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | sed -n '1s|/$||p'
