#!/bin/sh
# Start kbgit in a container: make the home when it is not there, then become the server. What init prints has the owner's token
# in it, which belongs into no log; it is in the home's owner-token as well.
set -eu
test -e "$KBGIT_HOME/kbgit.yaml" || kbgit init "$KBGIT_HOME" >/dev/null
exec kbgit serve
